"""Held-out evaluation of a model: bits per byte, and how often its draft steps would be accepted."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from penny_models.training.base import DRAFT_STEPS, DraftingModel
from penny_models.training.data import summarise
from penny_models.training.shards import Tokens, TokenStream


@dataclass
class _Sums:
    nats: float = 0.0
    predicted: int = 0
    looked_ahead: int = 0
    right: list[int] = field(default_factory=lambda: [0] * DRAFT_STEPS)
    """By draft step: drafts that are the text's token."""
    agreeing: list[int] = field(default_factory=lambda: [0] * DRAFT_STEPS)
    """By draft step: chains that are the model's own choices up to this step."""


def windows_of(
    tokens: Tokens, length: int, batch: int, device: torch.device
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (windows [b, length + 4], how many of their positions have a next token [b])."""
    extra = DRAFT_STEPS + 1
    stream = torch.from_numpy(tokens.astype("int64"))
    padded = torch.cat([stream, stream.new_zeros(length + extra)])
    starts = torch.arange(0, len(tokens) - 1, length)
    for group in starts.split(batch):
        windows = padded[group[:, None] + torch.arange(length + extra)]
        yield windows.to(device), (len(tokens) - 1 - group).clamp(max=length).to(device)


def summed_nats(logits: Tensor, windows: Tensor, counts: Tensor) -> tuple[float, int]:
    """Return the nats of the next tokens at the first ``counts`` positions of each window, and their number."""
    length = logits.shape[1]
    inside = torch.arange(length, device=logits.device) < counts[:, None]
    nats = F.cross_entropy(
        logits.flatten(0, 1).float(), windows[:, 1 : length + 1].flatten(), reduction="none"
    )
    return float((nats.double() * inside.flatten()).sum()), int(inside.sum())


@torch.no_grad()
def _measure(model: DraftingModel, tokens: Tokens, length: int, batch: int, device: torch.device) -> _Sums:
    sums = _Sums()
    seen = length - DRAFT_STEPS
    for windows, counts in windows_of(tokens, length, batch, device):
        main, *drafts = model(windows[:, :-1])
        nats, predicted = summed_nats(main, windows, counts)
        sums.nats += nats
        sums.predicted += predicted
        # A draft is accepted when the model itself, that many positions later, picks the same token.
        ahead = torch.arange(seen, device=device) < counts[:, None] - DRAFT_STEPS
        choice = main.argmax(-1)
        sums.looked_ahead += int(ahead.sum())
        chain = ahead
        for step, logits in enumerate(drafts):
            drafted = logits.argmax(-1)[:, :seen]
            chain = chain & (drafted == choice[:, step + 1 : step + 1 + seen])
            sums.agreeing[step] += int(chain.sum())
            sums.right[step] += int(((drafted == windows[:, step + 2 : step + 2 + seen]) & ahead).sum())
    return sums


def evaluate(
    model: DraftingModel, held_out: dict[str, TokenStream], length: int, batch: int, device: torch.device
) -> dict[str, Any]:
    """Measure ``model`` on each held-out stream in windows of ``length`` tokens, in its own dtype.

    Every token but the first of a stream is predicted once, from at most ``length`` tokens before it.
    Returns bits per byte by kind; top-1 accuracy of each draft step against the text; and the share of
    positions where the drafts up to a step equal the model's own greedy choices on the same text. The draft
    steps are given the text's tokens.
    """
    model.eval()
    sums = {kind: _measure(model, s.tokens, length, batch, device) for kind, s in held_out.items()}
    seen = sum(s.looked_ahead for s in sums.values())

    def shares(hits: list[list[int]]) -> list[float]:
        return [sum(step) / seen for step in zip(*hits, strict=True)]

    right = shares([s.right for s in sums.values()])
    agreeing = shares([s.agreeing for s in sums.values()])
    return {
        "bits_per_byte": summarise({kind: s.nats for kind, s in sums.items()}, held_out),
        "tokens": {kind: s.predicted for kind, s in sums.items()},
        "mtp_top1_accuracy": {f"step{step}": share for step, share in enumerate(right, start=1)},
        "mtp_agreement_with_model": dict(zip(AGREEMENTS, agreeing, strict=True)),
    }


AGREEMENTS = ("step1", "steps1and2", "steps1to3")
