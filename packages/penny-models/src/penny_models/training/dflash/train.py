"""Train a draft for a frozen target, write it, and measure what was written."""

import dataclasses
import json
import math
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from penny_models.training.data import write_json
from penny_models.training.dflash.acceptance import measure
from penny_models.training.dflash.batches import Batch, Sizes, continuations, training_batches
from penny_models.training.dflash.config import NAME, DraftShape, draft_config
from penny_models.training.dflash.export import read_draft, write_draft
from penny_models.training.dflash.losses import draft_losses
from penny_models.training.dflash.model import DraftModel, initialise
from penny_models.training.dflash.target import Target
from penny_models.training.optim import Optimiser
from penny_models.training.origin import origin
from penny_models.training.schedule import rate_factor
from penny_models.training.shards import load_streams

REPORT_EVERY = 20


@dataclass(frozen=True)
class DraftPoint:
    """The losses (nats) at a step, smoothed over the steps before it, with the seconds since the start."""

    step: int
    seconds: float
    rate: float
    unary: float
    selector: float


@dataclass(frozen=True)
class Measure:
    """How acceptance is measured: prompts of each kind, their tokens, and new tokens after each."""

    prompts: int = 256
    prompt: int = 256
    new: int = 256


class Trainer:
    """Steps over batches; with ``graph`` each shape of batch is captured once as a CUDA graph and replayed."""

    def __init__(self, draft: DraftModel, target: Target, graph: bool) -> None:
        self.draft, self.target, self.graph = draft, target, graph
        self.device = draft.norm.weight.device
        self.optimiser = Optimiser(draft, self.device)
        self.losses = torch.full((2,), math.nan, device=self.device)
        self._captured: dict[torch.Size, tuple[Batch, Callable[[], None]]] = {}

    def _run(self, batch: Batch) -> None:
        self.optimiser.zero_grad()
        with torch.autocast(self.device.type, dtype=torch.bfloat16, enabled=self.device.type == "cuda"):
            found = draft_losses(self.draft, self.target, batch)
        (found.unary + found.selector).backward()
        now = torch.stack([found.unary, found.selector]).detach()
        self.losses.copy_(torch.where(self.losses.isnan(), now, self.losses.lerp(now, 0.05)))
        self.optimiser.step()

    def capture(self, batch: Batch) -> None:
        """Capture the step for batches of this shape, at a learning rate of zero."""
        own = Batch(batch.tokens.clone(), batch.anchors.clone(), batch.greedy.clone())
        self.optimiser.scale.zero_()
        stream = torch.cuda.Stream()
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(3):
                self._run(own)
        torch.cuda.current_stream().wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._run(own)
        self._captured[batch.tokens.shape] = (own, graph.replay)

    def step(self, batch: Batch, rate: float) -> None:
        """Train on one batch with the schedule's factor ``rate``; nothing waits for the device."""
        if self.graph and batch.tokens.shape not in self._captured:
            self.capture(batch)
        self.optimiser.scale.fill_(rate)
        if self.graph:
            own, replay = self._captured[batch.tokens.shape]
            own.copy_(batch)
            replay()
        else:
            self._run(batch)


def train_draft(
    data_folder: Path,
    target_folder: Path,
    out: Path,
    minutes: float = 4.0,
    steps: int | None = None,
    sizes: Sizes | None = None,
    measured: Measure | None = None,
    graph: bool = True,
    seed: int = 27,
) -> dict[str, Any]:
    """Train a draft for ``target_folder`` and write it with ``results.json`` and ``loss_curve.json`` to ``out``.

    Args:
        data_folder: Holds ``train.npz`` and ``held_out.npz`` in the target's tokens (``training/shards.py``).
        target_folder: A checkpoint of transformers' ``Qwen3_5ForConditionalGeneration``.
        out: The folder to fill.
        minutes: Training time by the clock, after the continuations are made; captures count.
        steps: Train this many steps instead, to repeat a run.
        sizes: What is generated and how large a step is; the default is for one large GPU.
        measured: How acceptance is measured.
        graph: Capture the steps as CUDA graphs; without a GPU nothing is captured.
        seed: Of everything drawn.
    """
    sizes, measured = sizes or Sizes(), measured or Measure()
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    torch.manual_seed(seed)
    began = time.monotonic()
    stream = _stream(data_folder / "train.npz", device)["train"]
    config = draft_config(json.loads((target_folder / "config.json").read_text()))
    shape = DraftShape.read(config)
    target = Target(target_folder, shape.target_layer_ids, device)
    draft = DraftModel(shape).to(device)
    initialise(draft, target.final_norm)

    made = continuations(target, stream, sizes, seed)
    made_seconds = time.monotonic() - began
    trainer = Trainer(draft, target, graph and device.type == "cuda")
    batches = training_batches(stream, made, sizes, shape.block_size, seed)
    curve: list[DraftPoint] = []
    start = time.monotonic()
    index, progress = 0, 0.0
    while progress < 1.0:
        rate = rate_factor(progress)
        trainer.step(next(batches), rate)
        index += 1
        seconds = time.monotonic() - start
        progress = index / steps if steps else seconds / (60.0 * minutes)
        if index % REPORT_EVERY == 0 or progress >= 1.0:
            curve.append(_point(trainer.losses, index, time.monotonic() - start, rate))

    write_draft(draft, config, out)
    read_draft(draft, out)
    served = draft.eval().to(target.head.dtype)
    held_out = _stream(data_folder / "held_out.npz", device)
    long_enough = {kind: s for kind, s in held_out.items() if len(s) > measured.prompt}
    results = {
        "name": NAME,
        "seed": seed,
        "steps": index,
        "training_seconds": curve[-1].seconds,
        "continuation_seconds": made_seconds,
        "whole_seconds": time.monotonic() - began,
        "sizes": dataclasses.asdict(sizes),
        "parameters": sum(p.numel() for p in draft.parameters()),
        "unary_loss": curve[-1].unary,
        "selector_loss": curve[-1].selector,
        **origin(data_folder, device),
        "acceptance": measure(
            served, target, long_enough, measured.prompts, measured.prompt, measured.new, seed
        ),
    }
    write_json(out / "results.json", results)
    rows = [[round(value, 5) for value in dataclasses.astuple(point)] for point in curve]
    columns = [field.name for field in dataclasses.fields(DraftPoint)]
    (out / "loss_curve.json").write_text(json.dumps({"columns": columns, "rows": rows}) + "\n")
    return results


def _stream(file: Path, device: torch.device) -> dict[str, Tensor]:
    streams = load_streams(file)
    return {kind: torch.from_numpy(s.tokens.astype("int32")).to(device) for kind, s in streams.items()}


def _point(losses: Tensor, step: int, seconds: float, rate: float) -> DraftPoint:
    unary, selector = losses.tolist()
    if math.isnan(unary):
        raise FloatingPointError(f"The loss is not a number at step {step}; lower the learning rate.")
    point = DraftPoint(step, seconds, rate, unary, selector)
    if step % 200 == 0 or step <= 100:
        print(f"step {step} {seconds:.0f} s unary {unary:.4f} selector {selector:.4f}", flush=True)
    return point
