"""What only Flash-Next has, measured on held-out text: routing, PLE and sparse selection."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from penny_models.training.data import bits_per_byte
from penny_models.training.evaluate import summed_nats, windows_of
from penny_models.training.next.model import Pass, TinyNext
from penny_models.training.shards import TokenStream


class _Silent(nn.Module):
    """Stands where a PLE layer was, and adds nothing."""

    def forward(self, streams: Tensor, *_: Any) -> Tensor:
        return torch.zeros_like(streams)


@contextmanager
def without_ple(model: TinyNext) -> Iterator[None]:
    """Switch the PLE layers off."""
    kept = [layer.ple for layer in model.text.layers]
    for layer in model.text.layers:
        layer.ple = None if layer.ple is None else _Silent()
    try:
        yield
    finally:
        for layer, ple in zip(model.text.layers, kept, strict=True):
            layer.ple = ple


@torch.no_grad()
def _bits(
    model: TinyNext, held_out: dict[str, TokenStream], length: int, batch: int, device: torch.device
) -> float:
    """Return the bits per byte of all held-out text in windows of ``length`` tokens."""
    nats = 0.0
    for stream in held_out.values():
        for windows, counts in windows_of(stream.tokens, length, batch, device):
            logits = model.head(model.hidden(model.features(windows[:, :length])))
            nats += summed_nats(logits, windows, counts)[0]
    return bits_per_byte(nats, sum(stream.text_bytes for stream in held_out.values()))


@torch.no_grad()
def router_load(
    model: TinyNext, held_out: dict[str, TokenStream], length: int, batch: int, device: torch.device
) -> list[list[float]]:
    """Return each expert's share of the tokens' choices, times the number of experts: 1 everywhere is uniform.

    A row is a layer; the last one is the MTP layer, over its three draft steps.
    """
    experts = model.text.config.num_experts
    layers = len(model.text.layers)
    counts = torch.zeros(layers + 1, experts)
    for stream in held_out.values():
        for windows, inside in windows_of(stream.tokens, length, batch, device):
            whole = windows[inside == length]
            if not len(whole):
                continue
            record = Pass()
            model(whole[:, :-1], record)
            for index, (_, chosen) in enumerate(record.router):
                row = torch.bincount(chosen.flatten(), minlength=experts)
                counts[min(index, layers)] += row.cpu()
    return (counts / counts.sum(1, keepdim=True).clamp_min(1) * experts).tolist()  # type: ignore[no-any-return]


def measure(
    model: TinyNext, held_out: dict[str, TokenStream], length: int, batch: int, device: torch.device
) -> dict[str, Any]:
    """Return the measures as ``results.json`` names them.

    Sparse selection is compared with dense attention in windows of twice ``length``: at the trained length of
    2,048 that is twice the indexers' budget.
    """
    model.eval()
    loads = router_load(model, held_out, length, batch, device)
    whole = _bits(model, held_out, length, batch, device)
    with without_ple(model):
        ablated = _bits(model, held_out, length, batch, device)
    long_batch = max(1, batch // 4)
    dense = _bits(model, held_out, 2 * length, long_batch, device)
    model.sparse = True
    sparse = _bits(model, held_out, 2 * length, long_batch, device)
    model.sparse = False
    return {
        "router_load": loads,
        "router_load_max": max(map(max, loads)),
        "router_load_min": min(map(min, loads)),
        "ple_ablation": {"with": whole, "without": ablated, "cost": ablated / whole - 1},
        "sparse_attention": {
            "window": 2 * length,
            "dense": dense,
            "sparse": sparse,
            "cost": sparse / dense - 1,
        },
    }
