"""Verification of a chain of draft tokens: three rules, one result.

| Function | Needs | Emitted tokens are distributed |
|---|---|---|
| `greedy` | target logits | the target's argmax, one by one |
| `target_only` | target probabilities | as the target; the draft is a guess of any origin |
| `rejection` | target and draft probabilities | as the target; the draft was *sampled* from these |

Before a rule, `penalise` puts penalties and logit bias on the target's rows. After it, `end_run` cuts what was accepted
at a stop token or the length limit, `count_reasoning` counts, and `committed_state` picks the recurrent state to keep.

Shapes throughout: `B` requests, `K` draft tokens each (fewer where `lengths` says so), `V` vocabulary rows.
Row `j` of the target is its answer *after* `j` accepted draft tokens, so the target always has `K + 1` rows.
"""

from penny_spec.verify.chain import PADDING, Verdict
from penny_spec.verify.greedy import greedy
from penny_spec.verify.penalties import Penalties, count_tokens, penalise, penalise_constant
from penny_spec.verify.rejection import rejection
from penny_spec.verify.stops import Ending, ReasoningCount, committed_state, count_reasoning, end_run
from penny_spec.verify.target_only import target_only

__all__ = [
    "PADDING",
    "Ending",
    "Penalties",
    "ReasoningCount",
    "Verdict",
    "committed_state",
    "count_reasoning",
    "count_tokens",
    "end_run",
    "greedy",
    "penalise",
    "penalise_constant",
    "rejection",
    "target_only",
]
