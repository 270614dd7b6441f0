"""Ratios over restarts: worked numbers, SciPy, and simulated experiments."""

import math

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats as oracle

from penny_bench.stats import paired_ratio, two_sample_ratio

EXPERIMENTS = 2000


def restarts(rng: np.random.Generator, n: int, groups: int = 3) -> NDArray[np.float64]:
    """Rates of restarts with 3 % between restarts, each the median of groups with 2 % among them."""
    between = rng.normal(0.0, 0.03, (EXPERIMENTS, n, 1))
    within = rng.normal(0.0, 0.02, (EXPERIMENTS, n, groups))
    return 100 * np.median(np.exp(between + within), axis=2)


def test_two_samples_by_hand() -> None:
    # Logs (0, 2) and (3, 3.2): means 1 and 3.1; variances 2 and 0.02, over n: 1 and 0.01; error sqrt(1.01).
    # df = 1.01^2 / (1 + 0.0001) = 1.0199.
    r = two_sample_ratio([1.0, math.exp(2)], [math.exp(3), math.exp(3.2)])
    assert math.log(r.ratio) == pytest.approx(2.1)
    assert r.df == pytest.approx(1.0201 / 1.0001)
    assert math.log(r.high) - math.log(r.ratio) == pytest.approx(oracle.t.ppf(0.975, r.df) * math.sqrt(1.01))
    assert r.spread == pytest.approx(math.sqrt(1.01))


def test_pairs_by_hand() -> None:
    # Log differences 1, 3, 2: mean 2, s = 1, error 1/sqrt(3), t(0.975, 2) = 4.302653.
    r = paired_ratio([1, 1, 2], [math.e, math.exp(3), 2 * math.exp(2)])
    assert (math.log(r.ratio), r.df) == (pytest.approx(2.0), 2)
    assert math.log(r.low) == pytest.approx(2 - 4.302653 / math.sqrt(3), abs=1e-5)
    assert r.spread == pytest.approx(1 / math.sqrt(2))


def test_agrees_with_scipy() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.lognormal(0, 0.1, 5), rng.lognormal(0.1, 0.3, 7)
    welch = oracle.ttest_ind(np.log(b), np.log(a), equal_var=False)
    r = two_sample_ratio(a.tolist(), b.tolist(), 0.9)
    interval = welch.confidence_interval(0.9)
    assert (math.log(r.low), math.log(r.high)) == pytest.approx((interval.low, interval.high))
    assert (r.p, r.df) == pytest.approx((welch.pvalue, welch.df))
    paired = oracle.ttest_rel(np.log(b[:5]), np.log(a))
    q = paired_ratio(a.tolist(), b[:5].tolist())
    assert q.p == pytest.approx(paired.pvalue)
    assert math.log(q.high) == pytest.approx(paired.confidence_interval(0.95).high)


@pytest.mark.parametrize("n", [4, 8, 12])
def test_intervals_hold_where_a_percentile_bootstrap_does_not(n: int) -> None:
    rng = np.random.default_rng(100 + n)
    true = 0.97
    a, b = restarts(rng, n), true * restarts(rng, n)
    # Drift of the machine that both sides of a pair share: Student's interval of the pairs does not see it.
    drift = np.exp(rng.normal(0.0, 0.2, (EXPERIMENTS, n)))
    held = {"two samples": 0, "pairs": 0, "bootstrap": 0}
    for x, y, d in zip(a, b, drift, strict=True):
        r, q = two_sample_ratio(x.tolist(), y.tolist()), paired_ratio((d * x).tolist(), (d * y).tolist())
        held["two samples"] += r.low <= true <= r.high
        held["pairs"] += q.low <= true <= q.high
        drawn = np.log(y)[rng.integers(n, size=(400, n))].mean(1)
        drawn -= np.log(x)[rng.integers(n, size=(400, n))].mean(1)
        low, high = np.exp(np.quantile(drawn, (0.025, 0.975)))
        held["bootstrap"] += low <= true <= high
    share = {name: count / EXPERIMENTS for name, count in held.items()}
    assert 0.93 <= share["two samples"] <= 0.97
    assert 0.93 <= share["pairs"] <= 0.97
    assert share["bootstrap"] < (0.90 if n == 4 else 0.93)


def test_unequal_spreads_and_numbers_hold() -> None:
    rng = np.random.default_rng(9)
    held = 0
    for _ in range(EXPERIMENTS):
        a, b = rng.lognormal(0, 0.01, 8), rng.lognormal(0, 0.05, 4)
        r = two_sample_ratio(a.tolist(), b.tolist())
        held += r.low <= 1 <= r.high
    assert 0.93 <= held / EXPERIMENTS <= 0.97


def test_refusals() -> None:
    with pytest.raises(ValueError, match="1 and 2 restarts; an interval takes two a side"):
        two_sample_ratio([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="2 and 3 restarts; pairs take equal numbers"):
        paired_ratio([1.0, 2.0], [1.0, 2.0, 3.0])
    with pytest.raises(ValueError, match="do not vary"):
        paired_ratio([0.1, 0.2, 0.3], [0.3, 0.6, 0.9])
    with pytest.raises(ValueError, match="not all positive"):
        two_sample_ratio([1.0, 0.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="confidence is 95"):
        two_sample_ratio([1.0, 2.0], [1.0, 3.0], confidence=95)
