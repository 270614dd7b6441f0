"""The training loop: bfloat16 products, float32 weights, a schedule that follows the clock."""

import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from penny_models.training.model import TinyModel
from penny_models.training.optim import Optimiser
from penny_models.training.schedule import rate_factor

MTP_WEIGHTS = (0.2, 0.1)
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
    """The training losses (nats) at a step, with the seconds and tokens since the start."""

    step: int
    seconds: float
    tokens: int
    rate: float
    main: float
    mtp1: float
    mtp2: float


def _make_step(model: TinyModel, optimiser: Optimiser, window: Tensor, losses: Tensor) -> Callable[[], None]:
    """Return one whole step over the static ``window``, which leaves its losses in ``losses`` [3]."""
    device = window.device

    def step() -> None:
        optimiser.zero_grad()
        with torch.autocast(device.type, dtype=torch.bfloat16):
            out = model.losses(window)
        (out.main + MTP_WEIGHTS[0] * out.mtp1 + MTP_WEIGHTS[1] * out.mtp2).backward()
        losses.copy_(torch.stack([out.main, out.mtp1, out.mtp2]).detach())
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


def train(
    model: TinyModel, batches: Iterator[Tensor], plan: Plan, report: Callable[[CurvePoint], None]
) -> list[CurvePoint]:
    """Train in place and return the loss curve, one point for every 20 steps."""
    window = next(batches).clone()
    losses = torch.zeros(3, device=window.device)
    optimiser = Optimiser(model, window.device)
    step = _make_step(model, optimiser, window, losses)
    if window.is_cuda and plan.graph:
        step = _captured(step)
    per_step = window.shape[0] * (window.shape[1] - 3)
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
            main, mtp1, mtp2 = losses.tolist()
            seconds = time.monotonic() - start
            if math.isnan(main):
                raise FloatingPointError(
                    f"The loss is not a number at step {index}; lower the learning rate."
                )
            curve.append(CurvePoint(index, seconds, index * per_step, rate, main, mtp1, mtp2))
            report(curve[-1])
    return curve
