"""The clock of a measurement."""

import time


class Clock:
    """Seconds on a monotonic clock, which no change of the time of day moves.

    Attributes:
        zero: `time.perf_counter()` at the moment that is 0 s.
    """

    def __init__(self, reads: float = 0.0) -> None:
        """It reads `reads` seconds now."""
        self.zero = time.perf_counter() - reads

    def __call__(self) -> float:
        """Seconds now."""
        return time.perf_counter() - self.zero


def new_clock() -> Clock:
    """A clock that reads 0 s now."""
    return Clock()
