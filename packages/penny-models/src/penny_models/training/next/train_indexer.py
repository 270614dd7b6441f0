"""The second stage of ``tiny-next``: its indexers learn what dense attention looks at."""

import time
from typing import Any

import torch

from penny_models.training.batches import window_batches
from penny_models.training.freeze import freeze_all_but
from penny_models.training.next.config import INDEXED_LENGTH
from penny_models.training.next.model import Pass, TinyNext
from penny_models.training.optim import Adam
from penny_models.training.schedule import rate_factor
from penny_models.training.shards import Tokens

RATE = 0.002
BATCH = 2


def train_indexer(
    model: TinyNext, tokens: Tokens, steps: int, length: int, seed: int, device: torch.device
) -> dict[str, Any]:
    """Train the indexers of all QSA layers, the MTP layer's too, and nothing else.

    The sequences are longer than the budget: up to it every block is selected. Returns what ``results.json``
    says of it: the divergences (nats) from dense attention over the first and the last tenth of the steps.
    """
    freeze_all_but(model, ("indexer.",))
    adam = Adam([p for p in model.parameters() if p.requires_grad], RATE)
    batches = window_batches(tokens, length, BATCH, seed, device)
    model.sparse = True
    start = time.monotonic()
    losses = []
    for step in range(steps):
        record = Pass()
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            model(next(batches)[:, :-1], record)
        loss = torch.stack(record.indexer).mean()
        model.zero_grad()
        loss.backward()
        adam.step(torch.tensor(rate_factor(step / steps), device=device))
        losses.append(loss.detach())
    model.sparse = False
    tenth = max(1, steps // 10)
    nats = torch.stack(losses)
    return {
        "steps": steps,
        "batch": BATCH,
        "sequence_length": length,
        "seconds": time.monotonic() - start,
        "divergence_first": float(nats[:tenth].mean()),
        "divergence_last": float(nats[-tenth:].mean()),
    }


def finish(model: TinyNext, tokens: Tokens, small: bool, seed: int, device: torch.device) -> dict[str, Any]:
    """Run the stage at its published size, or a few short steps of it."""
    steps, length = (2, 64) if small else (400, INDEXED_LENGTH)
    return {"indexer": train_indexer(model, tokens, steps, length, seed, device)}
