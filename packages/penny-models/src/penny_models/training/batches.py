"""Windows of the training stream, each pass in a fresh order and cut at fresh places."""

from collections.abc import Iterator

import torch
from torch import Tensor

from penny_models.training.base import DRAFT_STEPS
from penny_models.training.shards import Tokens

LOOK_AHEAD = DRAFT_STEPS + 1
"""Tokens after the inputs: the targets of the model and of the draft steps."""


def window_batches(
    tokens: Tokens, length: int, batch: int, seed: int, device: torch.device
) -> Iterator[Tensor]:
    """Yield int64 windows [batch, length + 4] without end; every pass covers the stream once."""
    stream = torch.from_numpy(tokens.astype("int32")).to(device)
    generator = torch.Generator().manual_seed(seed)
    inside = torch.arange(length + LOOK_AHEAD, device=device)
    while True:
        shift = int(torch.randint(0, length, (), generator=generator))
        count = (len(tokens) - shift - LOOK_AHEAD) // length
        if count < batch:
            raise ValueError(f"{len(tokens)} tokens hold {count} windows of {length}; a batch needs {batch}.")
        order = (torch.randperm(count, generator=generator) * length + shift).to(device)
        for start in range(0, count - batch + 1, batch):
            yield stream[order[start : start + batch, None] + inside].long()
