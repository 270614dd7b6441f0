"""Train the MTP layer of a trained checkpoint on the model's own text, write the checkpoint again, and measure it."""

import json
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from penny_models.training.base import DRAFT_STEPS, DraftingModel
from penny_models.training.continuations import continue_prompts, slices
from penny_models.training.data import write_json
from penny_models.training.evaluate import evaluate
from penny_models.training.export import checkpoint_tensors, load_tensors, write_checkpoint
from penny_models.training.freeze import freeze_all_but
from penny_models.training.loop import CurvePoint, require_numbers
from penny_models.training.nextn.acceptance import measure
from penny_models.training.nextn.losses import STEP_WEIGHTS, mtp_losses
from penny_models.training.optim import Optimiser
from penny_models.training.origin import origin, same_split
from penny_models.training.recipes import Recipe, recipe
from penny_models.training.run import print_point, shortened, write_curve
from penny_models.training.schedule import rate_factor
from penny_models.training.shard_files import read_shards
from penny_models.training.shards import load_streams

REPORT_EVERY = 20
TEXT_EVERY = 4
"""One step in this many is on real text."""


@dataclass(frozen=True)
class Sizes:
    """How much is generated, how large a step is, and how acceptance is measured."""

    continuations: int = 8192
    """Prompts that the model continues: half greedily, half at temperature 1."""
    generated: int = 4096
    """Prompts continued at once."""
    prompt: int = 128
    length: int = 512
    """Positions of a row: prompt and continuation, without the three tokens that the steps look ahead."""
    rows: int = 32
    """Rows of a step."""
    measured: int = 256
    """Held-out prompts of each kind whose continuations are measured."""
    evaluated: int | None = None
    """Held-out tokens of each kind for the evaluation; None is all."""

    @classmethod
    def small(cls) -> "Sizes":
        """Return sizes for a trial on one processor core."""
        return cls(8, 4, 32, 64, 2, 2, 300)


def own_text(model: DraftingModel, stream: Tensor, sizes: Sizes, seed: int) -> Tensor:
    """Let the model continue slices of a stream [n]; return texts [M, length + 3], every other one greedy."""
    generator = torch.Generator().manual_seed(seed)
    texts: list[Tensor] = []
    new = sizes.length + DRAFT_STEPS - sizes.prompt
    for index in range(-(-sizes.continuations // sizes.generated)):
        start = slices(stream, sizes.generated, sizes.prompt, generator)
        heat = (torch.arange(sizes.generated, device=stream.device) % 2).float()
        texts.append(continue_prompts(model.base, start, new, heat, seed + index).int())
    return torch.cat(texts)


def _batches(stream: Tensor, own: Tensor, sizes: Sizes, seed: int) -> Iterator[tuple[Tensor, Tensor]]:
    """Yield (tokens [rows, length + 3], the first position that counts [rows]) without end."""
    generator = torch.Generator().manual_seed(seed)
    step = 0
    while True:
        if step % TEXT_EVERY == 0:
            tokens = slices(stream, sizes.rows, own.shape[1], generator)
            first = torch.zeros_like(tokens[:, 0])
        else:
            chosen = torch.randint(0, len(own), (sizes.rows,), generator=generator).to(own.device)
            tokens = own[chosen].long()
            first = torch.full_like(tokens[:, 0], sizes.prompt - 1)
        yield tokens, first
        step += 1


def read_model(folder: Path, made: Recipe, device: torch.device) -> DraftingModel:
    """Return the model of a recipe with the weights of a folder, in float32."""
    model = made.model()
    load_tensors(model, read_shards(folder))
    return model.to(device)


def train_nextn(
    data: Path,
    trained: Path,
    out: Path,
    minutes: float,
    steps: int | None,
    sizes: Sizes,
    seed: int,
) -> dict[str, Any]:
    """Train the MTP layer of ``trained`` further, and write weights, ``results.json`` and the curve to ``out``.

    Args:
        data: A data folder with the checkpoint's tokenizer and split (``origin.same_split``).
        trained: A folder with shards and ``results.json``: of the training step, or a whole checkpoint.
        out: The folder to fill; it may be ``trained``. All weights but the layer's come through unchanged.
        minutes: Training time by the clock, after the texts are made.
        steps: Train this many steps instead, to repeat a run.
        sizes: How much of what.
        seed: Of everything drawn.
    """
    results = json.loads((trained / "results.json").read_text())
    same_split(trained, data)
    made = recipe(results["name"])
    made.use_kernels()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(seed)
    model = read_model(trained, made, device).eval()
    stream = torch.from_numpy(load_streams(data / "train.npz")["train"].tokens.astype("int32")).to(device)
    began = time.monotonic()
    own = own_text(model, stream, sizes, seed)
    generation = time.monotonic() - began

    freeze_all_but(model, ("mtp.",), besides=("indexer.",))
    weights = dict(zip(("mtp1", "mtp2", "mtp3"), STEP_WEIGHTS, strict=True))
    weights |= {name: weight for name, weight in made.weights.items() if name == "balance"}
    optimiser = Optimiser(model, device)
    curve: list[CurvePoint] = []
    start = time.monotonic()
    progress = 0.0
    for index, (tokens, first) in enumerate(_batches(stream, own, sizes, seed), start=1):
        optimiser.scale.fill_(0.5 * rate_factor(progress))
        optimiser.zero_grad()
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            losses = mtp_losses(model, tokens, first)
        torch.stack([weight * losses[name] for name, weight in weights.items()]).sum().backward()
        optimiser.step()
        seconds = time.monotonic() - start
        progress = index / steps if steps else seconds / (60.0 * minutes)
        if index % REPORT_EVERY == 0 or progress >= 1.0:
            shown = {name: float(losses[name].detach()) for name in weights}
            require_numbers(shown, index)
            done = index * sizes.rows * sizes.length
            curve.append(CurvePoint(index, seconds, done, rate_factor(progress), shown))
            print_point(curve[-1])
        if progress >= 1.0:
            break

    write_checkpoint(model, out)
    load_tensors(model, checkpoint_tensors(model))
    results["nextn"] = {
        "steps": curve[-1].step,
        "tokens": curve[-1].tokens,
        "training_seconds": curve[-1].seconds,
        "generation_seconds": generation,
        "continuations": len(own),
        "batch": sizes.rows,
        "sequence_length": sizes.length,
        "loss_weights": weights,
        "seed": seed,
        **origin(data, device),
    }
    results["held_out"]["model"] |= _measured(model, data, made, sizes, seed, device)
    write_json(out / "results.json", results)
    write_curve(out / "nextn_curve.json", curve)
    if out != trained:
        shutil.copyfile(trained / "loss_curve.json", out / "loss_curve.json")
    return results  # type: ignore[no-any-return]


def _measured(
    model: DraftingModel, data: Path, made: Recipe, sizes: Sizes, seed: int, device: torch.device
) -> dict[str, Any]:
    """Return what the MTP layer's training changed of a model's results."""
    held_out = load_streams(data / "held_out.npz")
    if sizes.evaluated:
        held_out = {kind: shortened(stream, sizes.evaluated) for kind, stream in held_out.items()}
    length = min(made.length, 4 * sizes.length)
    found = evaluate(model, held_out, length, sizes.rows // 2 or 1, device)
    own = made.measure(model, held_out, length, sizes.rows // 2 or 1, device)
    streams = {kind: torch.from_numpy(s.tokens.astype("int64")).to(device) for kind, s in held_out.items()}
    new = sizes.length + DRAFT_STEPS - sizes.prompt
    return {
        **own,
        "mtp_top1_accuracy": found["mtp_top1_accuracy"],
        "mtp_agreement_with_model": found["mtp_agreement_with_model"],
        "nextn_acceptance": measure(model, streams, sizes.measured, sizes.prompt, new, seed, sizes.rows),
    }
