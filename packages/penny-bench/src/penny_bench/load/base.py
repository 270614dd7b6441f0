"""What every load is made of: the moments at which requests are due."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

from penny_bench.errors import BenchError


@dataclass(frozen=True)
class Slot:
    """One request that is due.

    Attributes:
        t: when, in seconds after the start of the run.
        prompt_tokens: length of its prompt; None for that of the plan.
        tokens: tokens it asks for; None for those of the plan.
    """

    t: float
    prompt_tokens: int | None = None
    tokens: int | None = None


class OpenLoad(Protocol):
    """A load whose requests come at their own times, whether the server keeps up or not."""

    def slots(self, seed: int) -> Iterator[Slot]:
        """The slots in the order of their times, without end unless the load has one. Same seed, same slots."""
        ...


@dataclass(frozen=True)
class Closed:
    """A fixed number of users; each sends its next request when its last one is answered.

    Attributes:
        concurrency: how many.
        ramp_up: they begin one after the other, evenly over so many seconds; at 0 all at once.
    """

    concurrency: int = 1
    ramp_up: float = 0.0

    def __post_init__(self) -> None:
        if self.concurrency < 1:
            raise BenchError(f"concurrency is {self.concurrency}; give at least 1.")
        if not 0 <= self.ramp_up < float("inf"):
            raise BenchError(f"ramp_up is {self.ramp_up:g}; give seconds of at least 0.")


def positive(**values: float) -> None:
    """Refuse values that are not finite numbers above 0.

    Raises:
        BenchError: names the value.
    """
    for name, value in values.items():
        if not 0 < value < float("inf"):
            raise BenchError(f"{name} is {value:g}; give a number above 0.")
