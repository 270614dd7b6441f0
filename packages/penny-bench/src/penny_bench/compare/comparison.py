"""Two sides compared, row by row."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from penny_bench.compare.check import check, common_concurrency
from penny_bench.compare.restart import METRICS, Metric, Restart
from penny_bench.compare.verdict import Verdict, overall, verdict
from penny_bench.errors import BenchError
from penny_bench.stats import (
    Permutation,
    Ratio,
    holm,
    minimum_effect,
    paired_ratio,
    sign_flip_test,
    two_sample_ratio,
    two_sample_test,
)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How to compare.

    Attributes:
        metrics: keys of `METRICS`.
        margin: relative change to the worse that does not matter, a share.
        alpha: rate of false alarms among all rows; the intervals are at `1 - alpha`.
        paired: whether restart i of A and restart i of B, in the order of time, are a pair.
        floor: least time that a token of one stream can take, ms, by concurrency; 0 stands for any.
        force: whether to compare in spite of faults.
    """

    metrics: tuple[str, ...] = ("aggregate", "ttft")
    margin: float = 0.03
    alpha: float = 0.05
    paired: bool = False
    floor: Mapping[int, float] | None = None
    force: bool = False

    def __post_init__(self) -> None:
        if unknown := [key for key in self.metrics if key not in METRICS]:
            raise BenchError(f"There is no metric {unknown[0]!r}; choose among {', '.join(METRICS)}.")
        if not self.metrics or len(set(self.metrics)) != len(self.metrics):
            raise BenchError(f"The metrics are {self.metrics}; give each once.")
        if not 0 <= self.margin < 1:
            raise BenchError(f"The margin is {self.margin}; give a share from 0 to under 1, such as 0.03.")
        if not 0 < self.alpha < 1:
            raise BenchError(f"alpha is {self.alpha}; give a share between 0 and 1, such as 0.05.")
        for c, time in (self.floor or {}).items():
            if not 0 < time < math.inf or c < 0:
                raise BenchError(f"The floor is {c}={time}; give a positive time in ms.")


@dataclass(frozen=True)
class ComparisonRow:
    """One metric at one concurrency.

    Attributes:
        concurrency: streams.
        metric: what is compared.
        a, b: the values of the restarts in the order of time, in the unit of the metric.
        mean_a, mean_b: their geometric means.
        change: `mean_b / mean_a - 1`.
        ratio: with interval and p-value; None with fewer than two restarts a side.
        p: p-value of the ratio after Holm's correction over all rows, or None.
        permutation: the permutation test, not corrected.
        floor_a, floor_b: share of the stated floor: floor / time of a token in one stream. None without one.
        detectable: relative difference that so many restarts with such a spread find in 80 % of the cases.
        verdict: on B.
    """

    concurrency: int
    metric: Metric
    a: tuple[float, ...]
    b: tuple[float, ...]
    mean_a: float
    mean_b: float
    change: float
    ratio: Ratio | None
    p: float | None
    permutation: Permutation
    floor_a: float | None
    floor_b: float | None
    detectable: float | None
    verdict: Verdict


@dataclass(frozen=True)
class Comparison:
    """Two sides compared: their restarts, the settings, the rows, the verdict on all, and what to know."""

    a: tuple[Restart, ...]
    b: tuple[Restart, ...]
    settings: Settings
    rows: tuple[ComparisonRow, ...]
    verdict: Verdict
    notes: tuple[str, ...]


def compare_restarts(a: Sequence[Restart], b: Sequence[Restart], settings: Settings) -> Comparison:
    """Compare B with A.

    Raises:
        BenchError: the results differ in what was measured, hold failures or cached prompts (unless
            `settings.force`), lack a value, or pairs are wanted of unequal sides.
    """
    if settings.paired and len(a) != len(b):
        raise BenchError(f"A has {len(a)} restarts and B {len(b)}; pairs take equal numbers.")
    faults, notes = check(a, b)
    common = common_concurrency(a, b)
    if faults and not (settings.force and common):
        more = f" And {len(faults) - 3} more." if len(faults) > 3 else ""
        hint = " Measure again, or pass --force to compare all the same." if common else ""
        raise BenchError(f"These results cannot be compared. {' '.join(faults[:3])}{more}{hint}")
    if unmeasured := set(settings.floor or {}) - {0, *common}:
        raise BenchError(
            f"There is a floor for {min(unmeasured)} streams, but only {', '.join(map(str, common))} were measured "
            f"on both sides; correct --floor."
        )
    if settings.paired and not _alternate(a, b):
        notes.append("The runs of the two sides did not alternate pair by pair, so drift does not cancel.")
    drafts = [_row(a, b, c, METRICS[key], settings) for c in common for key in settings.metrics]
    adjusted = iter(holm([row.ratio.p for row in drafts if row.ratio]))
    rows = tuple(_judged(row, next(adjusted) if row.ratio else None, len(drafts), settings) for row in drafts)
    return Comparison(
        tuple(a), tuple(b), settings, rows, overall(row.verdict for row in rows), (*faults, *notes)
    )


def _row(
    a: Sequence[Restart], b: Sequence[Restart], c: int, metric: Metric, settings: Settings
) -> ComparisonRow:
    x, y = _values(a, c, metric), _values(b, c, metric)
    interval: Callable[..., Ratio] = paired_ratio if settings.paired else two_sample_ratio
    test = sign_flip_test if settings.paired else two_sample_test
    mean_a, mean_b = (math.exp(math.fsum(map(math.log, side)) / len(side)) for side in (x, y))
    try:
        ratio = interval(x, y, 1 - settings.alpha) if min(len(x), len(y)) > 1 else None
    except ValueError as error:
        raise BenchError(f"{c} streams, {metric.label}: {error}") from error
    floor = (settings.floor or {}).get(c, (settings.floor or {}).get(0))
    return ComparisonRow(
        concurrency=c,
        metric=metric,
        a=x,
        b=y,
        mean_a=mean_a,
        mean_b=mean_b,
        change=mean_b / mean_a - 1,
        ratio=ratio,
        p=None,
        permutation=test(x, y),
        floor_a=_floor_share(mean_a, floor, c, metric),
        floor_b=_floor_share(mean_b, floor, c, metric),
        detectable=None,
        verdict="undecided",
    )


def _judged(row: ComparisonRow, p: float | None, rows: int, settings: Settings) -> ComparisonRow:
    if row.ratio is None:
        return row
    cv = math.sqrt(math.expm1(row.ratio.spread**2))
    n = min(len(row.a), len(row.b))
    least = minimum_effect(n, cv, settings.alpha / rows, paired=settings.paired)
    word = verdict(row.ratio, p, row.metric.higher, settings.margin, settings.alpha)
    return replace(row, p=p, detectable=least, verdict=word)


def _values(side: Sequence[Restart], c: int, metric: Metric) -> tuple[float, ...]:
    values = []
    for restart in side:
        value = restart.rows[c].values[metric.key]
        if value is None or not 0 < value < math.inf:
            raise BenchError(
                f"{restart.name}, {c} streams: there is no {metric.key}; measure again with more tokens, or leave "
                f"it out with --metric."
            )
        values.append(value)
    return tuple(values)


def _floor_share(mean: float, floor: float | None, c: int, metric: Metric) -> float | None:
    streams = {"aggregate": c, "stream": 1}.get(metric.key)
    return None if floor is None or streams is None else floor / 1000 * mean / streams


def _alternate(a: Sequence[Restart], b: Sequence[Restart]) -> bool:
    pairs = [{x.started, y.started} for x, y in zip(a, b, strict=True)]
    return all(max(first) <= min(second) for first, second in pairwise(pairs))
