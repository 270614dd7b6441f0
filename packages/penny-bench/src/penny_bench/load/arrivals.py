"""Open loads with a formula: even, random, bursty and growing arrivals.

The random ones draw from `random.Random(seed)` by inversion or `gammavariate`, so a seed names a schedule.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count

from penny_bench.errors import BenchError
from penny_bench.load.base import Slot, positive


@dataclass(frozen=True)
class Constant:
    """Request `i`, from 0, is due at `i / rate` seconds.

    Attributes:
        rate: requests/s.
    """

    rate: float

    def __post_init__(self) -> None:
        positive(rate=self.rate)

    def slots(self, seed: int) -> Iterator[Slot]:
        """See `OpenLoad`. The seed changes nothing."""
        return (Slot(i / self.rate) for i in count())


@dataclass(frozen=True)
class Poisson:
    """Independent arrivals: the gaps, also the one before the first, are exponential with mean `1 / rate`.

    Attributes:
        rate: requests/s.
    """

    rate: float

    def __post_init__(self) -> None:
        positive(rate=self.rate)

    def slots(self, seed: int) -> Iterator[Slot]:
        """See `OpenLoad`."""
        draw, t = random.Random(seed), 0.0
        while True:
            t -= math.log1p(-draw.random()) / self.rate
            yield Slot(t)


@dataclass(frozen=True)
class Gamma:
    """Gaps of a gamma distribution with mean `1 / rate` and the given coefficient of variation.

    A `cv` of 1 is Poisson, above 1 comes in bursts, below 1 is more even. The shape, which vLLM calls
    burstiness, is `1 / cv**2`.

    Attributes:
        rate: requests/s.
        cv: standard deviation of the gaps divided by their mean.
    """

    rate: float
    cv: float = 1.0

    def __post_init__(self) -> None:
        positive(rate=self.rate, cv=self.cv)

    def slots(self, seed: int) -> Iterator[Slot]:
        """See `OpenLoad`."""
        draw, t, shape = random.Random(seed), 0.0, self.cv**-2
        while True:
            t += draw.gammavariate(shape, 1 / (self.rate * shape))
            yield Slot(t)


@dataclass(frozen=True)
class Ramp:
    """A rate that goes from `start` to `end` in a straight line over `over` seconds and then stays.

    Request `i`, from 0, is due when the integral of the rate reaches `i`.

    Attributes:
        start, end: requests/s; one of them may be 0, but not the end.
        over: seconds.
    """

    start: float
    end: float
    over: float

    def __post_init__(self) -> None:
        positive(end=self.end, over=self.over)
        if not 0 <= self.start < math.inf:
            raise BenchError(f"start is {self.start:g}; give 0 or a number above it.")

    def slots(self, seed: int) -> Iterator[Slot]:
        """See `OpenLoad`. The seed changes nothing."""
        slope = (self.end - self.start) / self.over
        inside = (self.start + self.end) / 2 * self.over
        for i in count():
            if i >= inside:
                yield Slot(self.over + (i - inside) / self.end)
            else:  # root of start * t + slope * t**2 / 2 = i, in the form that also holds for a slope of 0
                root = math.sqrt(self.start**2 + 2 * slope * i)
                yield Slot(2 * i / (self.start + root) if i else 0.0)
