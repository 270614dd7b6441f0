"""Comparisons of servers whose every property is known, to see whether `compare_restarts` keeps its promises."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from penny_bench.compare.comparison import Comparison, compare_restarts
from penny_bench.compare.document import Document
from penny_bench.compare.restart import Restart
from penny_bench.compare.settings import Settings
from penny_bench.compare.value import Metric, Value
from penny_bench.stats import abba, log_spread, minimum_effect, spread_cv

Logs = NDArray[np.float64]

START = datetime(2026, 1, 1, tzinfo=UTC)
RESAMPLES = 1000
SLOWER = 0.9
METRIC = Metric("rate", "rate", "tok/s", "higher")


@dataclass(frozen=True, kw_only=True)
class World:
    """What is simulated: two servers in ABBA order whose restarts differ by chance.

    Attributes:
        restarts: of each side.
        paired: how they are compared.
        rows: numbers of a restart, independent of each other: the worst case of a correction for many.
        cv: coefficient of variation between restarts, log-normal, a share.
        trend: relative change of the machine from the first start to the last, a share, linear in the log.
        walk: standard deviation of its random change from one start to the next, in the log.
        slow: share of restarts that come up `SLOWER`, at random, in all their rows.
    """

    restarts: int
    paired: bool = False
    rows: int = 1
    cv: float = 0.03
    trend: float = 0.0
    walk: float = 0.0
    slow: float = 0.0

    @property
    def stated(self) -> float:
        """The minimum detectable effect that is stated before the run, for a power of 80 %.

        It is stated for the spread that is expected within a side, or of the differences within pairs: chance and
        what the machine's drift adds to it.
        """
        alpha = Settings().alpha / self.rows
        return minimum_effect(self.restarts, spread_cv(self.spread), alpha, paired=self.paired)

    @property
    def spread(self) -> float:
        """Expected standard deviation of the log of a restart, as a comparison will estimate it."""
        starts = np.arange(2 * self.restarts)
        trend = math.log1p(self.trend) * starts / (starts.size - 1)
        walk = self.walk**2 * (1 + np.minimum.outer(starts, starts))
        of_b = np.array(abba(self.restarts)) == "B"
        pick = np.eye(starts.size)
        sides = [pick[of_b] - pick[~of_b]] if self.paired else [pick[~of_b], pick[of_b]]
        variances = [
            float(np.var(p @ trend, ddof=1))
            + float(np.trace(c := p @ walk @ p.T) - c.sum() / self.restarts) / (self.restarts - 1)
            for p in sides
        ]
        drift = sum(variances) / 2  # mean of the two sides, or half the variance of a difference
        modes = self.slow * (1 - self.slow) * math.log(SLOWER) ** 2
        return math.sqrt(log_spread(self.cv) ** 2 + drift + modes)


@dataclass(frozen=True)
class Share:
    """Of `of` trials: the share and its Monte-Carlo standard error."""

    share: float
    error: float
    of: int

    @classmethod
    def count(cls, hits: int, of: int) -> Share:
        """`hits` of `of`."""
        share = hits / of
        return cls(share, math.sqrt(share * (1 - share) / of), of)


@dataclass(frozen=True)
class Promises:
    """What the simulated comparisons showed.

    Attributes:
        false_alarms: comparisons of equal sides in which any row had a corrected p-value of at most alpha.
        row_alarms: rows of those whose own p-value was at most alpha.
        permutation_alarms: the same by the permutation test.
        called_worse: comparisons of equal sides with the verdict `worse` at the default margin.
        power: comparisons in which B's first row is better by `World.stated` and was found to be, after the
            correction.
        coverage: rows whose interval holds the true ratio.
        bootstrap: the same of a percentile bootstrap over restarts, or over pairs, with 1,000 resamples.
    """

    false_alarms: Share
    row_alarms: Share
    permutation_alarms: Share
    called_worse: Share
    power: Share
    coverage: Share
    bootstrap: Share


def simulate(world: World, comparisons: int, seed: int | Sequence[int]) -> Promises:
    """Run so many comparisons of equal sides, and as many with the stated effect in one row."""
    rng = np.random.default_rng(seed)
    settings = Settings(paired=world.paired)
    alarms = row_alarms = permutations = worse = found = held = bootstrapped = 0
    gain = np.zeros((world.rows, 1))
    gain[0] = math.log1p(world.stated)
    for _ in range(comparisons):
        a, b = _draw(world, rng)
        made = _compare(a, b, settings)
        alarms += any(row.p is not None and row.p <= settings.alpha for row in made.rows)
        worse += made.verdict == "worse"
        for row in made.rows:
            if row.ratio and row.permutation:
                row_alarms += row.ratio.p <= settings.alpha
                held += row.ratio.low <= 1 <= row.ratio.high
                permutations += row.permutation.p <= settings.alpha
        bootstrapped += _bootstrap(a, b, world.paired, rng)
        first = _compare(a, b + gain, settings).rows[0]
        found += first.verdict == "better"
    rows = comparisons * world.rows
    return Promises(
        Share.count(alarms, comparisons),
        Share.count(row_alarms, rows),
        Share.count(permutations, rows),
        Share.count(worse, comparisons),
        Share.count(found, comparisons),
        Share.count(held, rows),
        Share.count(bootstrapped, rows),
    )


def _draw(world: World, rng: np.random.Generator) -> tuple[Logs, Logs]:
    """Logs of both sides, rows by restarts, in the order of time; the machine drifts alike for all rows."""
    starts = 2 * world.restarts
    machine = math.log1p(world.trend) * np.arange(starts) / (starts - 1)
    machine += np.cumsum(rng.normal(0.0, world.walk, starts))
    machine += math.log(SLOWER) * (rng.random(starts) < world.slow)
    values = machine + rng.normal(0.0, log_spread(world.cv), (world.rows, starts))
    of_b = np.array(abba(world.restarts)) == "B"
    return values[:, ~of_b], values[:, of_b]


def _compare(a: Logs, b: Logs, settings: Settings) -> Comparison:
    order = abba(a.shape[1])
    hours = {side: [hour for hour, of in enumerate(order) if of == side] for side in "AB"}
    return compare_restarts(_side(a, hours["A"]), _side(b, hours["B"]), settings)


def _side(values: Logs, hours: Sequence[int]) -> list[Restart]:
    return [
        Restart(
            name=f"{hour}.json",
            documents=(
                Document(
                    name=f"{hour}.json",
                    digest=str(hour),
                    started=START + timedelta(hours=hour),
                    model="simulated",
                    workload="simulated",
                    alike={},
                    told={},
                    values={(f"C{i}", "rate"): Value(METRIC, value) for i, value in enumerate(rates)},
                    prompts={},
                ),
            ),
        )
        for hour, rates in zip(hours, (100 * np.exp(values.T)).tolist(), strict=True)
    ]


def _bootstrap(a: Logs, b: Logs, paired: bool, rng: np.random.Generator) -> int:
    """How many rows' percentile bootstrap intervals hold a ratio of 1."""
    n = a.shape[1]
    drawn = rng.integers(n, size=(2, RESAMPLES, n))
    first = a[:, drawn[0]].mean(axis=2)
    second = b[:, drawn[0 if paired else 1]].mean(axis=2)
    low, high = np.quantile(second - first, (0.025, 0.975), axis=1)
    return int(((low <= 0) & (high >= 0)).sum())
