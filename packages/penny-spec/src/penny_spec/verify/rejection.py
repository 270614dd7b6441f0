"""Lossless rejection sampling for a draft that was sampled from a known distribution."""

import torch
from torch import Tensor

from penny_spec.verify.chain import Verdict, assemble, chain_ends, count_accepted, draft_column, draw, row_at
from penny_spec.verify.checks import check_chain, check_coins, check_distributions, check_shapes


def rejection(
    draft_tokens: Tensor,
    draft_probs: Tensor,
    target_probs: Tensor,
    coins: Tensor,
    *,
    lengths: Tensor | None = None,
    validate: bool = True,
) -> Verdict:
    """Accept draft token `d` with probability `min(1, p(d) / q(d))`; else draw from `max(p - q, 0)`.

    Speculative sampling of Leviathan et al. (arXiv 2211.17192, algorithm 1) and Chen et al.
    (arXiv 2302.01318, algorithm 2). The emitted tokens are distributed as the target's
    own, provided that draft token `j` was really drawn from `draft_probs[:, j]`; the first of them is then
    accepted with probability `sum(min(p, q))`.

    Args:
        draft_tokens: int32 or int64 `(B, K)`, ids in the target's vocabulary; `K` may be 0.
        draft_probs: float32 or float64 `(B, K, V)`, the distribution `q` that each draft token was drawn
            from, over the target's vocabulary (0 for tokens that a reduced draft vocabulary lacks).
        target_probs: float32 or float64 `(B, K + 1, V)`, `p`, rows that sum to 1.
        coins: float32 or float64 `(B, K + 1)`, independent and uniform in [0, 1) as `torch.rand` draws them,
            not those that drew the draft. Column `j < K` decides on draft token `j`, the last column draws
            the target's own token.
        lengths: int32 or int64 `(B,)`, draft tokens of each request if some chains are shorter than `K`.
        validate: look at the values too, not just at shapes and dtypes. On a GPU this waits for the device.

    Returns:
        The `Verdict`. A token of target probability 0 is never emitted. A draft token with `q(d) = 0` cannot
        have been drawn from `q`; it is rejected, so that a confused drafter cannot steer the output.

    Raises:
        ValueError: shapes or devices do not fit; with `validate`, an id or length out of range, a row that is
            no distribution, or a coin outside [0, 1).
        TypeError: a dtype other than those above.
    """
    check_shapes(draft_tokens, target_probs, "target_probs", draft_probs, coins, lengths)
    width = draft_tokens.shape[1]
    ends = chain_ends(draft_tokens, lengths)
    if validate:
        check_chain(draft_tokens, target_probs.shape[2], lengths)
        check_distributions("draft_probs", draft_probs, ends - 1)
        check_distributions("target_probs", target_probs, ends)
        check_coins(coins)
    column = draft_column(draft_tokens)
    p = target_probs[:, :width].gather(2, column).squeeze(2)
    q = draft_probs.gather(2, column).squeeze(2)
    accepted = count_accepted((coins[:, :width] * q < p) & (q > 0), ends)

    row = row_at(target_probs, accepted)
    rest = (
        (row - row_at(draft_probs, accepted.clamp_max(width - 1))).clamp_min(0)
        if width
        else torch.zeros_like(row)
    )
    # Only rounding can leave no rest: p equal to q everywhere but for the last bit of p(d).
    use_rest = (accepted < ends).unsqueeze(1) & (rest.sum(dim=1, keepdim=True) > 0)
    return assemble(draft_tokens, accepted, draw(torch.where(use_rest, rest, row), coins[:, -1]))
