"""What the three rules share: the verdict, and how a row of accept flags becomes one."""

from dataclasses import dataclass

import torch
from torch import Tensor

PADDING = -1
"""Fills `Verdict.tokens` behind the last emitted token of a request."""


@dataclass(frozen=True, eq=False)
class Verdict:
    """Outcome of one verification step.

    Attributes:
        accepted: int64 `(B,)`, how many draft tokens of each request were accepted, 0 to its chain length.
        tokens: int64 `(B, K + 1)`. Row `b` holds the accepted draft tokens, then one token of the target (the
            bonus token when the whole chain was accepted, the correction otherwise), then `PADDING`.
    """

    accepted: Tensor
    tokens: Tensor

    @property
    def emitted(self) -> Tensor:
        """int64 `(B,)`: tokens that each request gains in this step, `accepted + 1`."""
        return self.accepted + 1


def draft_column(draft_tokens: Tensor) -> Tensor:
    """`draft_tokens` as a gather index `(B, K, 1)`; ids behind a chain's end may be negative."""
    return draft_tokens.clamp_min(0).unsqueeze(-1)


def chain_ends(draft_tokens: Tensor, lengths: Tensor | None) -> Tensor:
    """int64 `(B,)`: the length of each chain, all of them `K` when `lengths` is None."""
    batch, width = draft_tokens.shape
    return torch.full((batch,), width, device=draft_tokens.device) if lengths is None else lengths.long()


def count_accepted(accept: Tensor, ends: Tensor) -> Tensor:
    """int64 `(B,)`: the run of true flags that starts each row of `accept` `(B, K)`, cut at `ends` `(B,)`."""
    position = torch.arange(accept.shape[1], device=accept.device)
    return (accept & (position < ends.unsqueeze(1))).long().cumprod(dim=1).sum(dim=1)


def assemble(draft_tokens: Tensor, accepted: Tensor, last: Tensor) -> Verdict:
    """Put accepted draft tokens and the target's own token `last` `(B,)` into a `Verdict`."""
    batch, width = draft_tokens.shape
    tokens = torch.cat([draft_tokens.long(), draft_tokens.new_zeros((batch, 1), dtype=torch.long)], dim=1)
    position = torch.arange(width + 1, device=draft_tokens.device)
    tokens = torch.where(position < accepted.unsqueeze(1), tokens, PADDING)
    tokens.scatter_(1, accepted.unsqueeze(1), last.unsqueeze(1))
    return Verdict(accepted=accepted, tokens=tokens)


def row_at(rows: Tensor, index: Tensor) -> Tensor:
    """`rows[b, index[b]]` for every `b`: `(B, R, V)` and `(B,)` give `(B, V)`."""
    return rows[torch.arange(rows.shape[0], device=rows.device), index]


def draw(weights: Tensor, coins: Tensor) -> Tensor:
    """One id a row by inverse CDF, in float64. An id of weight 0 is never drawn.

    Args:
        weights: float `(B, V)`, not negative, not normalised, at least one positive entry a row.
        coins: float `(B,)` in [0, 1).
    """
    cdf = weights.double().cumsum(dim=1)
    total = cdf[:, -1:]
    drawn = torch.searchsorted(cdf, coins.double().unsqueeze(1) * total, right=True)
    # coin * total can round up to total; the first id that reaches the total is the last one with weight.
    last = torch.searchsorted(cdf, total.contiguous())
    return torch.minimum(drawn, last).squeeze(1)
