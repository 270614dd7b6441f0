"""Ragged batches: sequences of different lengths laid end to end."""

from dataclasses import dataclass
from itertools import pairwise

import torch
from torch import Tensor


def flat_positions(starts: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Row and column of every element of the ragged rows ``[starts[i], starts[i] + lengths[i])``.

    Returns:
        (row [total], column [total]), int64, in row order.
    """
    lengths = lengths.to(torch.int64)
    rows = torch.repeat_interleave(torch.arange(lengths.numel()), lengths)
    first = lengths.cumsum(0) - lengths
    columns = torch.arange(rows.numel()) + (starts.to(torch.int64) - first)[rows]
    return rows, columns


@dataclass(frozen=True)
class TimeMajor:
    """A ragged batch re-ordered so that the tokens of one time step lie together.

    Attributes:
        order: the sequences, longest first; a time step's tokens are in this order.
        active: for each time step, how many sequences still run.
        tokens: for each position in the new order, the token's old index; None when nothing moves.
    """

    order: list[int]
    active: list[int]
    tokens: Tensor | None

    def arrange(self, x: Tensor) -> Tensor:
        """``x`` [1, tokens, ...] in the new order."""
        return x if self.tokens is None else x.index_select(1, self.tokens)

    def restore(self, x: Tensor) -> Tensor:
        """``x`` [1, tokens, ...] of the new order, back in the old one."""
        return x if self.tokens is None else torch.empty_like(x).index_copy_(1, self.tokens, x)


def time_major(cu_seqlens: list[int]) -> TimeMajor:
    """Order the tokens of the sequences ``[cu_seqlens[i], cu_seqlens[i + 1])`` by time step."""
    lengths = [end - start for start, end in pairwise(cu_seqlens)]
    order = sorted(range(len(lengths)), key=lambda i: -lengths[i])
    steps = lengths[order[0]]
    if len(order) == 1:
        return TimeMajor(order, [1] * steps, None)
    step = torch.arange(steps).unsqueeze(1)
    alive = step < torch.tensor([lengths[i] for i in order])
    tokens = (torch.tensor([cu_seqlens[i] for i in order]) + step)[alive]
    return TimeMajor(order, alive.sum(1).tolist(), tokens)


def one_token_each(sequences: int) -> TimeMajor:
    """The order of a decode step."""
    return TimeMajor(list(range(sequences)), [sequences], None)
