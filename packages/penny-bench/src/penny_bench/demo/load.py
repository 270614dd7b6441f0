"""What the demo sends."""

from __future__ import annotations

import random

from penny_bench.load import Slot, Trace

RATE = 1.6
"""Requests/s."""
PROMPTS = (128, 512, 2048, 4096, 8192)
WEIGHTS = (4, 4, 3, 2, 1)
TAIL = 6.0
"""Time for the last streams to end, s."""


def demo_load(seconds: float, seed: int = 0) -> Trace:
    """Poisson arrivals with prompts of five lengths, so that all is over after about `seconds`.

    The sixth prompt is a long one, which the engine of the demo refuses; there are at least eight requests.
    """
    chance = random.Random(seed)
    slots: list[Slot] = []
    t = 0.0
    while t < max(2.0, seconds - TAIL) or len(slots) < 8:
        prompt = PROMPTS[3] if len(slots) == 5 else chance.choices(PROMPTS, WEIGHTS)[0]
        slots.append(Slot(t, prompt, chance.choice((48, 96, 160))))
        t += chance.expovariate(RATE)
    return Trace("demo", tuple(slots))
