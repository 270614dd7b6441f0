"""The ratio of two sides over restarts, with an interval on the log scale that holds at few restarts."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

LEAST_SPREAD = 1e-9
"""Standard error of the log ratio below which the values are taken for copies, not for measurements."""
LARGEST = 700.0
"""Log of a ratio at which it is cut off, since a float can hold little more."""


@dataclass(frozen=True)
class Ratio:
    """B over A.

    Attributes:
        ratio: of the geometric means.
        low, high: its interval at `confidence`.
        p: two-sided p-value of the hypothesis that the true ratio is 1.
        df: degrees of freedom of Student's t.
        confidence: of the interval.
        spread: standard deviation of the log of one restart, both sides pooled; about its relative spread.
    """

    ratio: float
    low: float
    high: float
    p: float
    df: float
    confidence: float
    spread: float


def two_sample_ratio(a: Sequence[float], b: Sequence[float], confidence: float = 0.95) -> Ratio:
    """Welch's interval of the difference of mean logs, as a ratio. The spreads of the sides may differ.

    Args:
        a, b: one positive value per restart, at least two a side.
        confidence: of the interval.

    Raises:
        ValueError: too few values, a value that has no log, or values that do not vary.

    Source: Welch, "The generalization of Student's problem when several different population variances are
    involved", Biometrika 34 (1947); its degrees of freedom are those of Satterthwaite (1946).
    """
    x, y = logs(a), logs(b)
    if min(x.size, y.size) < 2:
        raise ValueError(f"There are {x.size} and {y.size} restarts; an interval takes two a side.")
    u, v = x.var(ddof=1) / x.size, y.var(ddof=1) / y.size
    error = math.sqrt(u + v)
    _check_spread(error)
    df = (u + v) ** 2 / (u**2 / (x.size - 1) + v**2 / (y.size - 1))
    pooled = ((x.size - 1) * x.var(ddof=1) + (y.size - 1) * y.var(ddof=1)) / (x.size + y.size - 2)
    return _ratio(float(y.mean() - x.mean()), error, float(df), confidence, math.sqrt(pooled))


def paired_ratio(a: Sequence[float], b: Sequence[float], confidence: float = 0.95) -> Ratio:
    """Student's interval of the mean log of `b[i] / a[i]`, as a ratio: drift common to a pair cancels.

    Args:
        a, b: one positive value per restart; equal places are a pair, at least two pairs.
        confidence: of the interval.

    Raises:
        ValueError: sides of unequal length, too few values, a value that has no log, or no variation.

    Source: Student, "The probable error of a mean", Biometrika 6 (1908).
    """
    x, y = logs(a), logs(b)
    if x.size != y.size or x.size < 2:
        raise ValueError(f"There are {x.size} and {y.size} restarts; pairs take equal numbers, at least two.")
    d = y - x
    deviation = float(d.std(ddof=1))
    error = deviation / math.sqrt(d.size)
    _check_spread(error)
    return _ratio(float(d.mean()), error, d.size - 1, confidence, deviation / math.sqrt(2))


def logs(values: Sequence[float]) -> NDArray[np.float64]:
    """Natural logs of positive values.

    Raises:
        ValueError: a value is not positive and finite.
    """
    data = np.array(values, dtype=np.float64)
    if not (np.isfinite(data) & (data > 0)).all():
        raise ValueError(
            f"The values {data.tolist()} are not all positive and finite, so they have no ratio."
        )
    return np.log(data)


def _check_spread(error: float) -> None:
    if error < LEAST_SPREAD:
        raise ValueError(
            "The values of the restarts do not vary, which measurements do; give each restart its own result."
        )


def _ratio(centre: float, error: float, df: float, confidence: float, spread: float) -> Ratio:
    if not 0 < confidence < 1:
        raise ValueError(f"The confidence is {confidence}; give a share between 0 and 1, such as 0.95.")
    from scipy.special import stdtr, stdtrit  # here, as it takes a quarter of a second

    half = float(stdtrit(df, (1 + confidence) / 2)) * error
    p = 2 * float(stdtr(df, -abs(centre) / error))
    low, high = math.exp(max(centre - half, -LARGEST)), math.exp(min(centre + half, LARGEST))
    return Ratio(math.exp(centre), low, high, p, df, confidence, spread)
