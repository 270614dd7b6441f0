"""The training step: train, round, evaluate what was saved, write everything that is published."""

import dataclasses
import json
import platform
import time
from pathlib import Path
from typing import Any

import torch
import transformers

from penny_models.training.batches import window_batches
from penny_models.training.config import SEQUENCE_LENGTH
from penny_models.training.data import write_json
from penny_models.training.evaluate import evaluate
from penny_models.training.export import checkpoint_tensors, write_checkpoint
from penny_models.training.loop import MTP_WEIGHTS, CurvePoint, Plan, train
from penny_models.training.model import TinyModel, use_training_kernels
from penny_models.training.shards import TokenStream, load_streams


def load_tensors(model: TinyModel, tensors: dict[str, torch.Tensor]) -> None:
    """Put the tensors of a checkpoint into a model, exactly: every name on both sides must match."""
    base = {name: value for name, value in tensors.items() if not name.startswith("mtp.")}
    mtp = {name.removeprefix("mtp."): value for name, value in tensors.items() if name.startswith("mtp.")}
    model.base.load_state_dict(base)
    model.mtp.load_state_dict(mtp)


def shortened(stream: TokenStream, tokens: int) -> TokenStream:
    """Return the first ``tokens`` of a stream, its bytes taken in proportion (for trials only)."""
    share = min(1.0, tokens / len(stream.tokens))
    return TokenStream(stream.tokens[:tokens], round(stream.text_bytes * share))


def _print_point(point: CurvePoint) -> None:
    if point.step % 200 == 0 or point.step <= 100:
        rate = point.tokens / point.seconds
        print(
            f"step {point.step} {point.seconds:.0f} s {rate:,.0f} tokens/s main {point.main:.4f} "
            f"mtp {point.mtp1:.4f} {point.mtp2:.4f}",
            flush=True,
        )


def run(
    folder: Path, out: Path, plan: Plan, batch: int, length: int | None, seed: int, evaluated: int | None
) -> dict[str, Any]:
    """Train on the data of ``folder`` and write weights, results and loss curve to ``out``.

    ``length`` shortens the sequences and ``evaluated`` the held-out streams, for a trial on a small machine.
    """
    length = length or SEQUENCE_LENGTH
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(seed)
    use_training_kernels()
    began = time.monotonic()
    stream = load_streams(folder / "train.npz")["train"]
    held_out = load_streams(folder / "held_out.npz")
    if evaluated:
        held_out = {kind: shortened(s, evaluated) for kind, s in held_out.items()}
    model = TinyModel().to(device)
    model.base.model.visual.requires_grad_(False)
    batches = window_batches(stream.tokens, length, batch, seed, device)
    curve = train(model, batches, plan, _print_point)

    write_checkpoint(model, out)
    load_tensors(model, checkpoint_tensors(model))
    measured = evaluate(model, held_out, length, batch, device)
    last = curve[-1]
    results = {
        "name": "tiny-27b",
        "seed": seed,
        "steps": last.step,
        "tokens": last.tokens,
        "epochs": last.tokens / len(stream.tokens),
        "training_seconds": last.seconds,
        "whole_seconds": time.monotonic() - began,
        "batch": batch,
        "sequence_length": length,
        "mtp_loss_weights": list(MTP_WEIGHTS),
        "parameters": sum(p.numel() for p in model.parameters()),
        "device": torch.cuda.get_device_name() if device.type == "cuda" else platform.processor() or "cpu",
        "versions": {
            "python": platform.python_version(),
            "torch": torch.__version__,
            "transformers": transformers.__version__,
        },
        "held_out": {"model": measured, **json.loads((folder / "baselines.json").read_text())},
    }
    write_json(out / "results.json", results)
    rows = [[round(value, 5) for value in dataclasses.astuple(point)] for point in curve]
    columns = [field.name for field in dataclasses.fields(CurvePoint)]
    (out / "loss_curve.json").write_text(json.dumps({"columns": columns, "rows": rows}) + "\n")
    return results
