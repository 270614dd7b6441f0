"""Power of a comparison before it is run, and the smallest effect that it can detect."""

import math
from functools import lru_cache

import numpy as np

from penny_bench.stats.ratio import LARGEST

_points, _weights = np.polynomial.legendre.leggauss(64)
LEVELS, WEIGHTS = (_points + 1) / 2, _weights / 2
"""Gauss-Legendre rule for means over the quantiles of a distribution."""
MOST = 1000
"""Restarts a side beyond which a plan is refused."""


def log_spread(cv: float) -> float:
    """Standard deviation of the log of a log-normal value whose coefficient of variation is `cv`.

    Raises:
        ValueError: `cv` is not positive and finite.
    """
    if not 0 < cv < math.inf:
        raise ValueError(f"The coefficient of variation is {cv}; give a positive share, such as 0.03.")
    return math.sqrt(math.log1p(cv**2))


def spread_cv(spread: float) -> float:
    """Coefficient of variation of a log-normal value whose log has the standard deviation `spread`."""
    return math.sqrt(math.expm1(min(spread**2, LARGEST)))


def power(restarts: int, cv: float, effect: float, alpha: float = 0.05, paired: bool = False) -> float:
    """Probability that a two-sided test at `alpha` finds a true ratio of `1 + effect`, or of its inverse.

    Args:
        restarts: of each side, at least 2.
        cv: coefficient of variation between restarts of one side, a share; for pairs, of what drift common to
            a pair does not explain.
        effect: relative difference, a share of at least 0; at 0 the power is the rate of false alarms.
        alpha: of the test.
        paired: Student's test of pairs, else Welch's of two samples.

    Raises:
        ValueError: an argument out of its range.

    The statistic has a noncentral t distribution with n - 1 (pairs) or 2(n - 1) degrees of freedom. Welch's
    critical value depends on how the variance falls on the two sides; that share has a beta distribution,
    independent of the statistic where both sides spread alike, so the power is its mean over that share.

    Source: Johnson, Kotz and Balakrishnan, "Continuous Univariate Distributions" 2 (1995), chapter 31.
    """
    _check(restarts, alpha)
    if not 0 <= effect < math.inf:
        raise ValueError(f"The effect is {effect}; give a share of at least 0, such as 0.03.")
    shift = math.log1p(effect) / (log_spread(cv) * math.sqrt(2 / restarts))
    return _power(restarts, shift, alpha, paired)


def minimum_effect(
    restarts: int, cv: float, alpha: float = 0.05, power: float = 0.8, paired: bool = False
) -> float:
    """Smallest relative difference that is found with probability `power`; arguments as for `power`.

    Infinite where two restarts with a wide spread can tell nothing.

    Raises:
        ValueError: an argument out of its range.
    """
    _check(restarts, alpha)
    if not alpha < power < 1:
        raise ValueError(f"The power is {power}; give a share between alpha and 1, such as 0.8.")
    effect = _shift(restarts, alpha, power, paired) * log_spread(cv) * math.sqrt(2 / restarts)
    return math.expm1(effect) if effect < LARGEST else math.inf


def restarts_needed(
    cv: float, effect: float, alpha: float = 0.05, power: float = 0.8, paired: bool = False
) -> int:
    """Fewest restarts a side whose minimum detectable effect is at most `effect`.

    Raises:
        ValueError: an argument out of its range, or over 1,000 restarts would be needed.
    """
    if not 0 < effect < math.inf:
        raise ValueError(f"The effect is {effect}; give a positive share, such as 0.03.")
    low, high = 1, 2
    while minimum_effect(high, cv, alpha, power, paired) > effect:
        if high >= MOST:
            raise ValueError(
                f"An effect of {effect} at a spread of {cv} takes over {MOST} restarts a side; reduce the spread "
                f"or look for a larger effect."
            )
        low, high = high, min(2 * high, MOST)
    while high - low > 1:
        middle = (low + high) // 2
        enough = minimum_effect(middle, cv, alpha, power, paired) <= effect
        low, high = (low, middle) if enough else (middle, high)
    return high


@lru_cache(maxsize=1024)
def _shift(n: int, alpha: float, power: float, paired: bool) -> float:
    """Noncentrality at which the power is reached, in standard errors; it does not depend on the spread."""
    from scipy.optimize import brentq  # a quarter of the time that every command takes to start

    high = 1.0
    while _power(n, high, alpha, paired) < power:
        high *= 2
    return float(brentq(lambda s: _power(n, s, alpha, paired) - power, 0.0, high, xtol=1e-9))


def _power(n: int, shift: float, alpha: float, paired: bool) -> float:
    # Means over the chi-square and the share, because scipy.special.nctdtr is NaN in places of this range.
    from scipy.special import betaincinv, gammaincinv, ndtr, stdtrit  # here: it takes a quarter of a second

    if paired:
        df, critical, outer = n - 1, np.array([stdtrit(n - 1, 1 - alpha / 2)]), np.ones(1)
    else:
        share = betaincinv((n - 1) / 2, (n - 1) / 2, LEVELS)
        df, outer = 2 * (n - 1), WEIGHTS
        critical = stdtrit((n - 1) / (share**2 + (1 - share) ** 2), 1 - alpha / 2)
    bound = np.outer(critical, np.sqrt(2 * gammaincinv(df / 2, LEVELS) / df))
    return float(outer @ (ndtr(shift - bound) + ndtr(-shift - bound)) @ WEIGHTS)


def _check(restarts: int, alpha: float) -> None:
    if not 2 <= restarts <= MOST:
        raise ValueError(f"restarts is {restarts}; give a number from 2 to {MOST}.")
    if not 0 < alpha < 1:
        raise ValueError(f"alpha is {alpha}; give a share between 0 and 1, such as 0.05.")
