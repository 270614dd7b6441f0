"""Verification of a chain of draft tokens: three rules, one result.

| Function | Needs | Emitted tokens are distributed |
|---|---|---|
| `greedy` | target logits | the target's argmax, one by one |
| `target_only` | target probabilities | as the target; the draft is a guess of any origin |
| `rejection` | target and draft probabilities | as the target; the draft was *sampled* from these |

Shapes throughout: `B` requests, `K` draft tokens each (fewer where `lengths` says so), `V` vocabulary rows.
Row `j` of the target is its answer *after* `j` accepted draft tokens, so the target always has `K + 1` rows.
"""

from penny_spec.verify.chain import PADDING, Verdict
from penny_spec.verify.greedy import greedy
from penny_spec.verify.rejection import rejection
from penny_spec.verify.target_only import target_only

__all__ = ["PADDING", "Verdict", "greedy", "rejection", "target_only"]
