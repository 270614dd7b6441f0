"""Simulated comparisons keep what `compare` promises; the short form of benchmarks/simulate_compare.py."""

import math

import numpy as np
import pytest

from penny_bench.compare.simulate import Share, World, simulate

COMPARISONS = 600


def within(share: Share, expected: float, errors: float = 3.3) -> bool:
    """Whether a share lies so many Monte-Carlo standard errors from what is expected."""
    return abs(share.share - expected) <= errors * math.sqrt(expected * (1 - expected) / share.of)


@pytest.mark.parametrize("restarts", [4, 8, 12])
@pytest.mark.parametrize("paired", [False, True])
def test_false_alarms_power_and_coverage_of_four_rows(restarts: int, paired: bool) -> None:
    found = simulate(World(restarts=restarts, paired=paired, rows=4), COMPARISONS, restarts)
    # Bars of the project: 5 % +- 1 false alarms over all rows, 80 % power; beyond them only what chance explains.
    error = math.sqrt(0.05 * 0.95 / COMPARISONS)
    assert 0.04 - 3 * error <= found.false_alarms.share <= 0.06 + 3 * error
    assert within(found.power, 0.8)
    # Without a correction 1 - 0.95^4 = 18.5 % of comparisons would have an alarm.
    assert found.false_alarms.share < 0.12
    assert 0.93 <= found.coverage.share <= 0.97
    assert found.bootstrap.share < (0.91 if restarts == 4 else 0.94)
    assert found.called_worse.share <= found.false_alarms.share


def test_pairs_hold_under_drift_and_find_what_two_samples_do_not() -> None:
    world = {"restarts": 8, "rows": 1, "trend": 0.3, "walk": 0.01}
    pairs = simulate(World(paired=True, **world), COMPARISONS, 1)  # type: ignore[arg-type]
    assert within(pairs.false_alarms, 0.05)
    assert pairs.power.share > 0.75
    assert World(paired=True, **world).stated < 0.6 * World(**world).stated  # type: ignore[arg-type]


def test_restarts_in_two_modes_give_no_more_false_alarms() -> None:
    found = simulate(World(restarts=4, slow=0.2), COMPARISONS, 2)
    assert found.false_alarms.share <= 0.05 + 3 * math.sqrt(0.05 * 0.95 / COMPARISONS)
    assert found.coverage.share >= 0.93


def test_the_stated_spread_is_that_of_simulated_restarts() -> None:
    # By hand, 2 restarts at the times 0 3 | 1 2 of a trend of ln 2: A at 0 and ln 2, B at ln 2 / 3 and 2 ln 2 / 3.
    # Sample variances (ln 2)^2 / 2 and (ln 2 / 3)^2 / 2, their mean 5/18 (ln 2)^2. Differences +-ln 2 / 3: half of
    # their variance is (ln 2 / 3)^2.
    chance = math.log1p(0.03**2)
    two = World(restarts=2, trend=1.0)
    assert two.spread == pytest.approx(math.sqrt(chance + 5 / 18 * math.log(2) ** 2))
    assert World(restarts=2, trend=1.0, paired=True).spread == pytest.approx(
        math.sqrt(chance + (math.log(2) / 3) ** 2)
    )
    # One step of a walk lies between the two of a pair: half of its variance.
    walk = World(restarts=6, walk=0.1, paired=True)
    assert walk.spread == pytest.approx(math.sqrt(chance + 0.1**2 / 2))
    # One restart in five 10 % slower: a two-point variance, 0.2 * 0.8 * (ln 0.9)^2.
    modes = World(restarts=4, slow=0.2)
    assert modes.spread == pytest.approx(math.sqrt(chance + 0.16 * math.log(0.9) ** 2))
    # Simulated: the variance within A and within B of walks.
    steps = np.cumsum(np.random.default_rng(0).normal(0, 0.1, (40_000, 6)), axis=1)
    a, b = steps[:, [0, 3, 4]], steps[:, [1, 2, 5]]
    simulated = (a.var(axis=1, ddof=1).mean() + b.var(axis=1, ddof=1).mean()) / 2
    assert World(restarts=3, walk=0.1).spread ** 2 == pytest.approx(chance + simulated, rel=0.03)
