"""What acceptance a map can cost, from its held-out coverage."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from penny_spec.frspec.errors import InputError


@dataclass(frozen=True)
class AcceptanceLoss:
    """Accepted draft tokens per step that a map can cost.

    Attributes:
        native: accepted draft tokens per step with the full head, without the target's own token.
        bound: the most that the map can cost per step.
        estimate: what it costs when uncovered tokens fall independently of acceptance; never above `bound`.
    """

    native: float
    bound: float
    estimate: float


def expected_acceptance_loss(coverage: float, acceptance_by_position: Sequence[float]) -> AcceptanceLoss:
    """Bound the accepted draft tokens per step that a reduced draft head can cost.

    Derivation. Draft position `i` (from 1) proposes the argmax of the draft head. Let `A_i` be the event that the full
    head's drafts 1 to `i` are all accepted, with probability `S_i`, and `C_i` that these `i` tokens are all in
    the map. Where `A_i` and `C_i` both hold, each full-head argmax is in the map, so it is also the argmax over the
    map's rows; the drafter then sees the same inputs at the next position, and the reduced head's drafts 1 to `i`
    are the same tokens and are accepted too. Hence with the map

        S'_i >= P(A_i and C_i) = S_i - P(A_i and not C_i)

    An accepted token is the token that the target emits, and one emitted token misses the map with probability
    `1 - coverage`, so `P(A_i and not C_i)` is at most `i * (1 - coverage)` (union bound) and at most `S_i`:

        bound = sum over i of min(S_i, i * (1 - coverage))

    If misses are independent of acceptance and of one another, `P(A_i and C_i) = S_i * coverage**i`, which gives
    `estimate = sum over i of S_i * (1 - coverage**i)`. The bound needs no independence. Both assume that text at
    each drafted position is covered as the held-out text is, that the map leaves the mix of positions where steps
    start as it is, and a chain of argmax drafts (greedy or target-only verification, `topk` 1). Where the full head
    was wrong the map may be right; such gains are not counted, so a measured loss may be smaller, even negative.

    Args:
        coverage: share of held-out token occurrences whose id is in the map, 0 to 1.
        acceptance_by_position: `S_1, S_2, ...`: share of steps in which draft token `i` and all before it were
            accepted, measured without a map. It never rises.

    Raises:
        InputError: a share outside 0 to 1, or shares that rise.
    """
    shares = [float(share) for share in acceptance_by_position]
    if wrong := [share for share in (coverage, *shares) if not 0 <= share <= 1]:
        raise InputError(f"{wrong[0]} is no share; coverage and acceptance lie between 0 and 1.")
    if any(later > earlier for earlier, later in pairwise(shares)):
        raise InputError(
            f"Acceptance by position is {shares}, which rises; pass the share of steps in which a draft token "
            "and all before it were accepted, not the share given that those before it were."
        )
    numbered = list(enumerate(shares, start=1))
    return AcceptanceLoss(
        native=sum(shares),
        bound=sum(min(share, i * (1 - coverage)) for i, share in numbered),
        estimate=sum(share * (1 - coverage**i) for i, share in numbered),
    )
