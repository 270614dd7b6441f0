"""The training step: train, round, evaluate what was saved, write everything that is published."""

import json
import time
from pathlib import Path
from typing import Any

import torch

from penny_models.training.batches import window_batches
from penny_models.training.data import write_json
from penny_models.training.evaluate import evaluate
from penny_models.training.export import checkpoint_tensors, load_tensors, write_checkpoint
from penny_models.training.freeze import freeze
from penny_models.training.loop import CurvePoint, Plan, train
from penny_models.training.origin import origin
from penny_models.training.recipes import recipe
from penny_models.training.shards import TokenStream, load_streams

_UNUSED = ("visual.", "indexer.")
"""Parts of names: what the joint training does not run. An indexer matters beyond its budget only."""


def shortened(stream: TokenStream, tokens: int) -> TokenStream:
    """Return the first ``tokens`` of a stream, its bytes taken in proportion (for trials only)."""
    share = min(1.0, tokens / len(stream.tokens))
    return TokenStream(stream.tokens[:tokens], round(stream.text_bytes * share))


def print_point(point: CurvePoint) -> None:
    """Print a point of the curve: each at first, then one in ten."""
    if point.step % 200 == 0 or point.step <= 100:
        rate = point.tokens / point.seconds
        print(
            f"step {point.step} {point.seconds:.0f} s {rate:,.0f} tokens/s "
            + " ".join(f"{name} {value:.4f}" for name, value in point.losses.items()),
            flush=True,
        )


def run(
    folder: Path, out: Path, plan: Plan, batch: int, length: int | None, seed: int, evaluated: int | None
) -> dict[str, Any]:
    """Train what the data of ``folder`` is for, and write weights, results and loss curve to ``out``.

    ``length`` shortens the sequences and ``evaluated`` the held-out streams, for a trial on a small machine.
    """
    made = recipe(json.loads((folder / "manifest.json").read_text())["name"])
    length = length or made.length
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(seed)
    made.use_kernels()
    began = time.monotonic()
    stream = load_streams(folder / "train.npz")["train"]
    held_out = load_streams(folder / "held_out.npz")
    if evaluated:
        held_out = {kind: shortened(s, evaluated) for kind, s in held_out.items()}
    model = made.model().to(device)
    freeze(model, _UNUSED)
    batches = window_batches(stream.tokens, length, batch, seed, device)
    curve = train(model, batches, made.weights, plan, print_point)
    write_checkpoint(model, out)  # whatever happens to the next stage
    finished = made.finish(model, stream.tokens, length < made.length, seed, device)

    write_checkpoint(model, out)
    tensors = checkpoint_tensors(model)
    load_tensors(model, tensors)
    measured = evaluate(model, held_out, length, batch, device)
    measured |= made.measure(model, held_out, length, batch, device)
    last = curve[-1]
    results = {
        "name": made.name,
        "seed": seed,
        "steps": last.step,
        "tokens": last.tokens,
        "epochs": last.tokens / len(stream.tokens),
        "training_seconds": last.seconds,
        "whole_seconds": time.monotonic() - began,
        "batch": batch,
        "sequence_length": length,
        "loss_weights": made.weights,
        "parameters": sum(tensor.numel() for tensor in tensors.values()),
        **origin(folder, device),
        **finished,
        "held_out": {"model": measured, **json.loads((folder / "baselines.json").read_text())},
    }
    write_json(out / "results.json", results)
    write_curve(out / "loss_curve.json", curve)
    return results


def write_curve(file: Path, curve: list[CurvePoint]) -> None:
    """Write a loss curve: the names of the columns, and a row for each point."""
    rows = [
        [round(value, 5) for value in (p.step, p.seconds, p.tokens, p.rate, *p.losses.values())]
        for p in curve
    ]
    columns = ["step", "seconds", "tokens", "rate", *curve[0].losses]
    file.write_text(json.dumps({"columns": columns, "rows": rows}) + "\n")
