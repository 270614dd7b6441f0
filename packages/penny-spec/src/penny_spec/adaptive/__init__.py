"""How many tokens to draft: width policies as pure functions of recorded steps, and their replay on a trace.

| Module | Has |
|---|---|
| `base` | `Policy`, the interface, and `Fixed` |
| `ema`, `confidence` | the two policies; `slots` and `survival` are their parts |
| `step` | `Step`, what a policy observes, and `StepCost`, what a step costs |
| `trace`, `tape`, `served` | recorded steps as a file, made ready for replay, and those of one width |
| `replay`, `oracle`, `report` | a policy, every fixed width and the best possible choice on one trace |
"""

from penny_spec.adaptive.base import Fixed, Policy
from penny_spec.adaptive.confidence import Confidence
from penny_spec.adaptive.ema import Ema
from penny_spec.adaptive.replay import Comparison, Outcome, compare, replay
from penny_spec.adaptive.served import served
from penny_spec.adaptive.slots import Slots
from penny_spec.adaptive.step import Step, StepCost
from penny_spec.adaptive.trace import Record, Trace, parse_trace, read_trace, write_trace

__all__ = [
    "Comparison",
    "Confidence",
    "Ema",
    "Fixed",
    "Outcome",
    "Policy",
    "Record",
    "Slots",
    "Step",
    "StepCost",
    "Trace",
    "compare",
    "parse_trace",
    "read_trace",
    "replay",
    "served",
    "write_trace",
]
