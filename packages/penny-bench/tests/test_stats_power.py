"""Power and the minimum detectable effect, against SciPy's noncentral t and simulated comparisons."""

import math

import numpy as np
import pytest
from scipy import stats as oracle

from penny_bench.stats import (
    log_spread,
    minimum_effect,
    paired_ratio,
    power,
    restarts_needed,
    spread_cv,
    two_sample_ratio,
)

CV = 0.03
SIGMA = math.sqrt(math.log(1 + CV**2))


@pytest.mark.parametrize("n", [3, 8])
def test_pairs_agree_with_the_noncentral_t(n: int) -> None:
    shift = math.log(1.06) / (SIGMA * math.sqrt(2 / n))
    critical = oracle.t.ppf(0.975, n - 1)
    expected = oracle.nct.sf(critical, n - 1, shift) + oracle.nct.cdf(-critical, n - 1, shift)
    assert power(n, CV, 0.06, paired=True) == pytest.approx(expected, abs=1e-4)
    assert power(n, CV, 0.0, paired=True) == pytest.approx(0.05, abs=1e-4)


def test_two_samples_approach_the_noncentral_t() -> None:
    # With 100 a side Welch's degrees of freedom hardly differ from Student's 198.
    shift = math.log(1.012) / (SIGMA * math.sqrt(2 / 100))
    expected = oracle.nct.sf(oracle.t.ppf(0.975, 198), 198, shift)
    assert power(100, CV, 0.012) == pytest.approx(expected, abs=1e-3)


@pytest.mark.parametrize("n", [4, 8, 12])
def test_simulated_comparisons_find_the_stated_effect_and_no_other(n: int) -> None:
    rng = np.random.default_rng(n)
    a, b = np.exp(rng.normal(0, SIGMA, (2, 2000, n))).tolist()
    false = np.mean([two_sample_ratio(x, y).p <= 0.05 for x, y in zip(a, b, strict=True)])
    assert false == pytest.approx(power(n, CV, 0.0), abs=0.013)
    assert 0.03 <= false <= 0.06
    factor = 1 + minimum_effect(n, CV)
    found = [two_sample_ratio(x, [v * factor for v in y]).p <= 0.05 for x, y in zip(a, b, strict=True)]
    assert np.mean(found) == pytest.approx(0.8, abs=0.025)
    factor = 1 + minimum_effect(n, CV, paired=True)
    found = [paired_ratio(x, [v / factor for v in y]).p <= 0.05 for x, y in zip(a, b, strict=True)]
    assert np.mean(found) == pytest.approx(0.8, abs=0.025)


def test_restarts_needed_is_the_least_number() -> None:
    for paired in (False, True):
        n = restarts_needed(CV, 0.03, paired=paired)
        assert minimum_effect(n, CV, paired=paired) <= 0.03 < minimum_effect(n - 1, CV, paired=paired)
    # Normal theory: 2 (1.960 + 0.842)^2 (0.03 / ln 1.03)^2 = 16.2 a side; the t distribution costs about one.
    assert restarts_needed(CV, 0.03) in (17, 18)
    assert restarts_needed(0.001, 1.0) == 2


def test_refusals() -> None:
    with pytest.raises(ValueError, match="over 1000 restarts"):
        restarts_needed(0.5, 0.001)
    with pytest.raises(ValueError, match="restarts is 1"):
        minimum_effect(1, CV)
    with pytest.raises(ValueError, match="coefficient of variation is 0"):
        minimum_effect(4, 0.0)
    with pytest.raises(ValueError, match=r"power is 0\.01"):
        minimum_effect(4, CV, power=0.01)
    with pytest.raises(ValueError, match="effect is -1"):
        power(4, CV, -1)
    with pytest.raises(ValueError, match="effect is 0"):
        restarts_needed(CV, 0.0)
    with pytest.raises(ValueError, match="alpha is 5"):
        power(4, CV, 0.1, alpha=5)


def test_spread_and_coefficient_of_variation() -> None:
    # Variance over squared mean of a log-normal value: exp(s^2) - 1.
    assert spread_cv(0.5) == pytest.approx(math.sqrt(math.exp(0.25) - 1))
    assert log_spread(spread_cv(0.5)) == pytest.approx(0.5)
    assert math.isfinite(spread_cv(1e3))


def test_an_effect_beyond_every_float_is_infinite() -> None:
    assert minimum_effect(2, 1.0, 0.05 / 1000, paired=True) == math.inf
