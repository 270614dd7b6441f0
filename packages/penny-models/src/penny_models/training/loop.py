"""The training loop: bfloat16 products, float32 weights, a schedule that follows the clock."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from penny_models.training.base import DraftingModel
from penny_models.training.batches import LOOK_AHEAD
from penny_models.training.optim import Optimiser
from penny_models.training.schedule import rate_factor

WAIT_EVERY = 20


@dataclass(frozen=True)
class Plan:
    """How long to train: by the clock, or by steps (then two runs of one seed take the same batches)."""

    minutes: float
    steps: int | None
    graph: bool
    """Capture the step as a CUDA graph; without one the host launches every kernel."""


@dataclass(frozen=True)
class CurvePoint:
    """The training losses at a step, with the seconds and tokens since the start."""

    step: int
    seconds: float
    tokens: int
    rate: float
    losses: dict[str, float]


def _make_step(
    model: DraftingModel, optimiser: Optimiser, window: Tensor, weights: dict[str, float], losses: Tensor
) -> Callable[[], None]:
    """Return one whole step over the static ``window``, which leaves its losses, in their order, in ``losses``."""
    device = window.device

    def step() -> None:
        optimiser.zero_grad()
        with torch.autocast(device.type, torch.bfloat16, enabled=device.type == "cuda"):
            out = model.losses(window)
        torch.stack([weight * out[name] for name, weight in weights.items()]).sum().backward()
        losses.copy_(torch.stack([out[name] for name in weights]).detach())
        optimiser.step()

    return step


def _captured(step: Callable[[], None]) -> Callable[[], None]:
    """Capture a step as a CUDA graph. The warm-up and the capture run at a learning rate of zero."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(3):
            step()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


def require_numbers(losses: dict[str, float], step: int) -> None:
    """Raise ``FloatingPointError`` when a loss is not a number."""
    if any(math.isnan(value) for value in losses.values()):
        raise FloatingPointError(f"A loss is not a number at step {step}: {losses}; lower the learning rate.")


def train(
    model: DraftingModel,
    batches: Iterator[Tensor],
    weights: dict[str, float],
    plan: Plan,
    report: Callable[[CurvePoint], None],
) -> list[CurvePoint]:
    """Train in place and return the loss curve, one point for every 20 steps; ``weights`` names the losses."""
    window = next(batches).clone()
    losses = torch.zeros(len(weights), device=window.device)
    optimiser = Optimiser(model, window.device)
    step = _make_step(model, optimiser, window, weights, losses)
    if window.is_cuda and plan.graph:
        step = _captured(step)
    per_step = window.shape[0] * (window.shape[1] - LOOK_AHEAD)
    curve: list[CurvePoint] = []
    start = time.monotonic()
    index, progress = 0, 0.0
    while progress < 1.0:
        window.copy_(next(batches))
        optimiser.scale.fill_(rate_factor(progress))
        step()
        index += 1
        seconds = time.monotonic() - start
        rate = rate_factor(progress)
        progress = index / plan.steps if plan.steps else seconds / (60.0 * plan.minutes)
        if index % WAIT_EVERY == 0 or progress >= 1.0:
            values = dict(zip(weights, losses.tolist(), strict=True))
            seconds = time.monotonic() - start
            require_numbers(values, index)
            curve.append(CurvePoint(index, seconds, index * per_step, rate, values))
            report(curve[-1])
    return curve
