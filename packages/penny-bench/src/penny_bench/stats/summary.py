"""Median, range and an interval for the mean of a few repeated runs."""

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Summary:
    """Of `n` values: median, extremes, and the `confidence` interval `[low, high]` of their mean.

    `low` and `high` are None for fewer than two values. The unit is that of the values.
    """

    n: int
    median: float
    minimum: float
    maximum: float
    low: float | None
    high: float | None
    confidence: float


def summarise(values: Iterable[float | None], confidence: float = 0.95) -> Summary | None:
    """Summarise values, leaving out None; None if nothing is left.

    The interval is Student's: `mean +- t(n - 1) * s / sqrt(n)`. It holds for independent, roughly normal
    values: runs on one server say nothing of restarts of that server.

    Raises:
        ValueError: `confidence` is not between 0 and 1, or a value is not finite.
    """
    if not 0 < confidence < 1:
        raise ValueError(f"The confidence is {confidence}; give a share between 0 and 1, such as 0.95.")
    data = np.array([v for v in values if v is not None], dtype=float)
    if data.size == 0:
        return None
    if not np.isfinite(data).all():
        raise ValueError(f"The values {data.tolist()} are not all finite; leave out what was not measured.")
    low = high = None
    if data.size > 1:
        from scipy.special import stdtrit  # here, as it takes a quarter of a second

        half = float(stdtrit(data.size - 1, (1 + confidence) / 2)) * data.std(ddof=1) / math.sqrt(data.size)
        low, high = float(data.mean() - half), float(data.mean() + half)
    return Summary(
        int(data.size), float(np.median(data)), float(data.min()), float(data.max()), low, high, confidence
    )
