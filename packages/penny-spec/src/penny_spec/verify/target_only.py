"""Sampling verification that knows nothing of how the draft was made."""

import torch
from torch import Tensor

from penny_spec.verify.chain import Verdict, assemble, chain_ends, count_accepted, draft_column, draw, row_at
from penny_spec.verify.checks import check_chain, check_coins, check_distributions, check_shapes


def target_only(
    draft_tokens: Tensor,
    target_probs: Tensor,
    coins: Tensor,
    *,
    lengths: Tensor | None = None,
    validate: bool = True,
) -> Verdict:
    """Accept draft token `d` with the target's probability `p(d)`; else draw from `p` without `d`.

    This is speculative sampling (Leviathan et al., arXiv 2211.17192, section 2.3) for a draft distribution
    that puts all its mass on `d`. It is lossless for a draft of any origin that does not depend on the
    coins: `d` comes out with `p(d)`, any other `x` with `(1 - p(d)) * p(x) / (1 - p(d))`. Where the draft
    was sampled and its probabilities are at hand, `rejection` accepts more.

    Args:
        draft_tokens: int32 or int64 `(B, K)`, ids in the target's vocabulary; `K` may be 0.
        target_probs: float32 or float64 `(B, K + 1, V)`, rows that sum to 1 (after temperature, penalties).
        coins: float32 or float64 `(B, K + 1)`, independent and uniform in [0, 1) as `torch.rand` draws them.
            Column `j < K` decides on draft token `j`, the last column draws the target's own token.
        lengths: int32 or int64 `(B,)`, draft tokens of each request if some chains are shorter than `K`.
        validate: look at the values too, not just at shapes and dtypes. On a GPU this waits for the device.

    Returns:
        The `Verdict`. A token of probability 0 is never emitted.

    Raises:
        ValueError: shapes or devices do not fit; with `validate`, an id or length out of range, a row that is
            no distribution, or a coin outside [0, 1).
        TypeError: a dtype other than those above.
    """
    check_shapes(draft_tokens, target_probs, "target_probs", coins=coins, lengths=lengths)
    width = draft_tokens.shape[1]
    ends = chain_ends(draft_tokens, lengths)
    if validate:
        check_chain(draft_tokens, target_probs.shape[2], lengths)
        check_distributions("target_probs", target_probs, ends)
        check_coins(coins)
    p = target_probs[:, :width].gather(2, draft_column(draft_tokens)).squeeze(2)
    accepted = count_accepted(coins[:, :width] < p, ends)

    row = row_at(target_probs, accepted)
    refused = torch.nn.functional.pad(draft_tokens.long(), (0, 1)).gather(1, accepted.unsqueeze(1))
    rest = row.scatter(1, refused.clamp_min(0), 0.0)
    # Only rounding can leave no rest: p(d) a hair below 1, and a coin between the two.
    use_rest = (accepted < ends).unsqueeze(1) & (rest.sum(dim=1, keepdim=True) > 0)
    return assemble(draft_tokens, accepted, draw(torch.where(use_rest, rest, row), coins[:, -1]))
