"""Permutation tests, Holm's correction, and the order of runs."""

import math

import numpy as np
import pytest
from scipy import stats as oracle

from penny_bench.stats import abba, holm, sign_flip_test, two_sample_test


def test_three_pairs_by_hand() -> None:
    # All three are slower: of 8 sign patterns only +++ and --- have a sum as large, 2/8, the least there is.
    test = sign_flip_test([100, 101, 99], [90, 93, 92])
    assert (test.p, test.exact, test.least) == (0.25, True, 0.25)
    # Logs 3, 2, -1: |sum| 4. Of +-3 +-2 +-1: 6, 4, 2, 0 and their negatives, so 4 of 8 reach 4.
    test = sign_flip_test([1, 1, math.e], [math.exp(3), math.exp(2), 1])
    assert test.p == 0.5
    assert sign_flip_test([5.0], [4.0]).p == 1.0


def test_two_samples_by_hand() -> None:
    # {1,2,3} against {4,5,6}: of 20 choices of three, the two that separate them completely.
    test = two_sample_test([1, 2, 3], [4, 5, 6])
    assert (test.p, test.exact, test.least) == (0.1, True, 0.1)
    # One against two, logs 3 | 0, 1: alone 3 differs by 2.5 from the mean of the others, 0 by 2, 1 by 0.5.
    test = two_sample_test([math.exp(3)], [1, math.e])
    assert (test.p, test.least) == (pytest.approx(1 / 3), pytest.approx(1 / 3))
    assert two_sample_test([7, 7], [7, 7]).p == 1.0


def test_exact_tests_agree_with_scipy() -> None:
    rng = np.random.default_rng(2)
    for _ in range(5):
        a, b = rng.lognormal(0, 0.1, 6), rng.lognormal(0.08, 0.1, 6)

        def difference(x: np.ndarray, y: np.ndarray, axis: int) -> np.ndarray:
            return np.asarray(np.mean(y, axis=axis) - np.mean(x, axis=axis))

        logs = (np.log(a), np.log(b))
        two = oracle.permutation_test(logs, difference, vectorized=True, n_resamples=np.inf)
        assert two_sample_test(a.tolist(), b.tolist()).p == pytest.approx(two.pvalue)
        pairs = oracle.permutation_test(
            logs, difference, permutation_type="samples", vectorized=True, n_resamples=np.inf
        )
        assert sign_flip_test(a.tolist(), b.tolist()).p == pytest.approx(pairs.pvalue)


def test_drawn_tests_are_near_the_normal_theory_and_repeatable() -> None:
    rng = np.random.default_rng(3)
    a, b = rng.lognormal(0, 0.1, 30), rng.lognormal(0.04, 0.1, 30)
    test = two_sample_test(a.tolist(), b.tolist(), seed=1)
    assert (test.exact, test.least) == (False, 1 / 20001)
    assert test.p == pytest.approx(oracle.ttest_ind(np.log(a), np.log(b)).pvalue, abs=0.02)
    assert test == two_sample_test(a.tolist(), b.tolist(), seed=1)
    test = sign_flip_test(a.tolist(), b.tolist(), seed=1)
    assert not test.exact
    assert test.p == pytest.approx(oracle.ttest_rel(np.log(a), np.log(b)).pvalue, abs=0.02)
    # No arrangement drawn at random reaches a complete separation of 30 against 30: (0 + 1) / (20000 + 1).
    assert two_sample_test(a.tolist(), (b * 100).tolist()).p == 1 / 20001


def test_permutation_refusals() -> None:
    with pytest.raises(ValueError, match="1 and 2 restarts"):
        sign_flip_test([1.0], [1.0, 2.0])
    with pytest.raises(ValueError, match="0 and 1 restarts"):
        two_sample_test([], [1.0])


def test_holm_by_hand() -> None:
    # Sorted .01 .02 .03 .04 times 4 3 2 1: .04 .06 .06 .04, made monotone: .04 .06 .06 .06.
    assert holm([0.03, 0.01, 0.04, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    assert holm([0.9, 0.6]) == [1.0, 1.0]
    assert holm([]) == []
    with pytest.raises(ValueError, match=r"p-value 1\.5"):
        holm([1.5])


def test_holm_keeps_false_alarms_of_a_family_at_alpha() -> None:
    rng = np.random.default_rng(4)
    alarms = sum(min(holm(p.tolist())) <= 0.05 for p in rng.random((2000, 8)))
    assert alarms / 2000 == pytest.approx(1 - (1 - 0.05 / 8) ** 8, abs=0.015)


def test_abba_cancels_linear_drift() -> None:
    assert abba(3) == list("ABBAAB")
    order = abba(6)
    sums = {side: sum(t for t, s in enumerate(order) if s == side) for side in "AB"}
    assert sums["A"] == sums["B"]
    assert all({*order[i : i + 2]} == {"A", "B"} for i in range(0, 12, 2))
    with pytest.raises(ValueError, match="restarts is 0"):
        abba(0)
