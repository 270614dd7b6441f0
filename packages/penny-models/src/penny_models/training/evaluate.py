"""Held-out evaluation of a model: bits per byte, and how often the MTP steps would be accepted."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from penny_models.training.data import summarise
from penny_models.training.model import TinyModel
from penny_models.training.shards import Tokens, TokenStream


@dataclass
class _Sums:
    nats: float = 0.0
    predicted: int = 0
    looked_ahead: int = 0
    agree1: int = 0
    agree2: int = 0
    right1: int = 0
    right2: int = 0


def _windows(
    tokens: Tokens, length: int, batch: int, device: torch.device
) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (windows [b, length + 3], how many of their positions have a next token [b])."""
    stream = torch.from_numpy(tokens.astype("int64"))
    padded = torch.cat([stream, stream.new_zeros(length + 3)])
    starts = torch.arange(0, len(tokens) - 1, length)
    for group in starts.split(batch):
        windows = padded[group[:, None] + torch.arange(length + 3)]
        yield windows.to(device), (len(tokens) - 1 - group).clamp(max=length).to(device)


@torch.no_grad()
def _measure(model: TinyModel, tokens: Tokens, length: int, batch: int, device: torch.device) -> _Sums:
    sums = _Sums()
    for windows, counts in _windows(tokens, length, batch, device):
        out = model(windows[:, :-1])
        inside = torch.arange(length, device=device) < counts[:, None]
        nats = F.cross_entropy(
            out.main.flatten(0, 1).float(), windows[:, 1 : length + 1].flatten(), reduction="none"
        )
        sums.nats += float((nats.double() * inside.flatten()).sum())
        sums.predicted += int(inside.sum())
        ahead = inside & (torch.arange(length, device=device) < counts[:, None] - 2)
        choice, first, second = (x.argmax(-1) for x in (out.main, out.mtp1, out.mtp2))
        # A draft is accepted when the model itself, one or two positions later, picks the same token.
        one = (first[:, :-2] == choice[:, 1:-1]) & ahead[:, :-2]
        two = one & (second[:, :-2] == choice[:, 2:]) & ahead[:, :-2]
        sums.looked_ahead += int(ahead[:, :-2].sum())
        sums.agree1 += int(one.sum())
        sums.agree2 += int(two.sum())
        sums.right1 += _hits(first, windows[:, 2:], ahead)
        sums.right2 += _hits(second, windows[:, 3:], ahead)
    return sums


def _hits(choice: Tensor, targets: Tensor, where: Tensor) -> int:
    length = choice.shape[1] - 2
    return int(((choice[:, :length] == targets[:, :length]) & where[:, :length]).sum())


def evaluate(
    model: TinyModel, held_out: dict[str, TokenStream], length: int, batch: int, device: torch.device
) -> dict[str, Any]:
    """Measure ``model`` on each held-out stream in windows of ``length`` tokens, in its own dtype.

    Every token but the first of a stream is predicted once, from at most ``length`` tokens before it.
    Returns bits per byte by kind; MTP top-1 accuracy against the text (tokens t+2 and t+3); and the share
    of positions where the drafts equal the model's own greedy choice on the same text (step 1; both steps).
    """
    model.eval()
    sums = {kind: _measure(model, s.tokens, length, batch, device) for kind, s in held_out.items()}
    seen = sum(s.looked_ahead for s in sums.values())
    return {
        "bits_per_byte": summarise({kind: s.nats for kind, s in sums.items()}, held_out),
        "tokens": {kind: s.predicted for kind, s in sums.items()},
        "mtp_top1_accuracy": {
            "step1": sum(s.right1 for s in sums.values()) / seen,
            "step2": sum(s.right2 for s in sums.values()) / seen,
        },
        "mtp_agreement_with_model": {
            "step1": sum(s.agree1 for s in sums.values()) / seen,
            "steps1and2": sum(s.agree2 for s in sums.values()) / seen,
        },
    }
