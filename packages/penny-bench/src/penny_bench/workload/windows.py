"""Decode within windows of time: pauses and tokens of streams before, while and after something happened."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from penny_bench.client import StreamRecord
from penny_bench.load import Distribution
from penny_bench.load.metrics import tokens_of_arrivals


@dataclass(frozen=True)
class Window:
    """What streams did between two moments.

    Attributes:
        start, end: s.
        pauses: between neighbouring events of one stream that lie in the window, s; in the window in which
            something happened all that touch it, whole.
        tokens: that came, of all streams; a share where the server does not say what an event brought.
    """

    start: float
    end: float
    pauses: tuple[float, ...]
    tokens: float

    @property
    def rate(self) -> float | None:
        """Tokens/s of all streams together; None for a window without length."""
        return self.tokens / (self.end - self.start) if self.end > self.start else None

    @property
    def distribution(self) -> Distribution | None:
        """Of the pauses."""
        return Distribution.of(self.pauses)


def three_windows(
    records: Sequence[StreamRecord], begin: float, happens: float, over: float, end: float
) -> tuple[Window, Window, Window]:
    """Before `happens`, from there until it is `over`, and after.

    Args:
        records: streams that did not fail.
        begin, happens, over, end: moments on the clock of the records, s, in that order.
    """
    gaps = [(a.t, b.t) for record in records for a, b in pairwise(record.arrivals)]

    def window(start: float, stop: float, found: list[tuple[float, float]]) -> Window:
        tokens = sum(_tokens(record, start, stop) for record in records)
        return Window(start, stop, tuple(b - a for a, b in found), tokens)

    return (
        window(begin, happens, [(a, b) for a, b in gaps if a >= begin and b <= happens]),
        window(happens, over, [(a, b) for a, b in gaps if a < over and b > happens]),
        window(over, end, [(a, b) for a, b in gaps if a >= over and b <= end]),
    )


def all_decoding(groups: Iterable[Sequence[StreamRecord]]) -> tuple[float, float] | None:
    """From the moment at which all users had a token to the first at which one had its last; None if there is none.

    Each group holds the requests of one user.
    """
    begins, ends = [], []
    for records in groups:
        times = [arrival.t for record in records for arrival in record.arrivals]
        if not times:
            return None
        begins.append(min(times))
        ends.append(max(times))
    return (max(begins), min(ends)) if begins and max(begins) < min(ends) else None


def _tokens(record: StreamRecord, start: float, end: float) -> float:
    """Tokens that came after `start` and not after `end`."""
    brought: Sequence[float] | None = tokens_of_arrivals(record)
    if brought is None:
        brought = [(record.output_tokens or 0) / len(record.arrivals)] * len(record.arrivals)
    times = np.array([arrival.t for arrival in record.arrivals])
    return float(np.array(brought, dtype=float)[(times > start) & (times <= end)].sum())
