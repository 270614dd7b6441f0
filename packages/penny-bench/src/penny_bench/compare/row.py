"""One row of a comparison: one number, over the restarts of both sides."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from penny_bench.compare.restart import Restart
from penny_bench.compare.settings import Settings
from penny_bench.compare.value import Metric, Place
from penny_bench.compare.verdict import Verdict, verdict
from penny_bench.errors import BenchError
from penny_bench.stats import (
    Permutation,
    Ratio,
    minimum_effect,
    paired_ratio,
    sign_flip_test,
    spread_cv,
    two_sample_ratio,
    two_sample_test,
)


@dataclass(frozen=True)
class ComparisonRow:
    """One metric of one phase of one workload.

    Attributes:
        place: workload, phase and key.
        metric: what is compared.
        streams: at once, where the phase has a number of them.
        a, b: the values of the restarts in the order of time, in the unit of the metric.
        mean_a, mean_b: their geometric means; arithmetic where a value is not positive.
        change: `mean_b / mean_a - 1`; None where a value is not positive.
        ratio: with interval and p-value; None with fewer than two restarts a side or without a ratio.
        p: p-value of the ratio after Holm's correction over all rows that can be better or worse, or None.
        permutation: the permutation test, not corrected; None where a value is not positive.
        floor_a, floor_b: share of the stated floor that was reached. None without one.
        detectable: relative difference that so many restarts with such a spread find in 80 % of the cases.
        verdict: on B; None for a metric that is neither better nor worse.
    """

    place: Place
    metric: Metric
    streams: int | None
    a: tuple[float, ...]
    b: tuple[float, ...]
    mean_a: float
    mean_b: float
    change: float | None
    ratio: Ratio | None
    p: float | None
    permutation: Permutation | None
    floor_a: float | None
    floor_b: float | None
    detectable: float | None
    verdict: Verdict | None

    @property
    def steady(self) -> bool:
        """Whether no side varies, as counts and scores may."""
        return min(len(self.a), len(self.b)) > 1 and len({*self.a}) == len({*self.b}) == 1


def make_row(a: Sequence[Restart], b: Sequence[Restart], place: Place, settings: Settings) -> ComparisonRow:
    """The row without a verdict.

    Raises:
        BenchError: a value is missing, or a time or rate does not vary.
    """
    first = a[0].values[place]
    x, y = _values(a, place), _values(b, place)
    positive = min(*x, *y) > 0
    mean_a, mean_b = (_mean(side, positive) for side in (x, y))
    row = ComparisonRow(
        place=place,
        metric=first.metric,
        streams=first.streams,
        a=x,
        b=y,
        mean_a=mean_a,
        mean_b=mean_b,
        change=mean_b / mean_a - 1 if positive else None,
        ratio=None,
        p=None,
        permutation=(sign_flip_test if settings.paired else two_sample_test)(x, y) if positive else None,
        floor_a=_share(a, place, mean_a, settings),
        floor_b=_share(b, place, mean_b, settings),
        detectable=None,
        verdict="undecided" if first.metric.better else None,
    )
    return replace(row, ratio=_ratio(row, settings)) if positive and min(len(x), len(y)) > 1 else row


def judge(row: ComparisonRow, p: float | None, rows: int, settings: Settings) -> ComparisonRow:
    """The row with its verdict.

    Args:
        row: from `make_row`.
        p: its p-value after the correction.
        rows: how many were corrected for.
        settings: as for the row.
    """
    if row.metric.better is None:
        return row
    if row.ratio is None:
        return replace(row, verdict="equal") if row.steady and row.a[0] == row.b[0] else row
    word = verdict(row.ratio, p, row.metric.better == "higher", settings.margin, settings.alpha)
    least = None
    if row.ratio.spread:
        n, cv = min(len(row.a), len(row.b)), spread_cv(row.ratio.spread)
        least = minimum_effect(n, cv, settings.alpha / rows, paired=settings.paired)
    return replace(
        row, p=p, detectable=least if least is not None and math.isfinite(least) else None, verdict=word
    )


def _ratio(row: ComparisonRow, settings: Settings) -> Ratio | None:
    if row.steady and row.permutation and not row.metric.timed:
        # Without spread there is no t: what is left is how often labels drawn at random would separate so well.
        ratio = row.mean_b / row.mean_a
        return Ratio(ratio, ratio, ratio, row.permutation.p, 0, 1 - settings.alpha, 0.0)
    interval: Callable[..., Ratio] = paired_ratio if settings.paired else two_sample_ratio
    try:
        return interval(row.a, row.b, 1 - settings.alpha)
    except ValueError as error:
        if row.metric.better is None:
            return None
        raise BenchError(f"{row.place}: {error}") from error


def _values(side: Sequence[Restart], place: Place) -> tuple[float, ...]:
    values = []
    for restart in side:
        value = restart.values[place].value
        if value is None or not math.isfinite(value):
            raise BenchError(
                f"{restart.name}, {place.phase}: there is no {place.metric}; measure again with more tokens, or leave "
                f"it out with --metric."
            )
        values.append(value)
    return tuple(values)


def _mean(values: Sequence[float], positive: bool) -> float:
    if positive:
        return math.exp(math.fsum(map(math.log, values)) / len(values))
    return math.fsum(values) / len(values)


def _share(side: Sequence[Restart], place: Place, mean: float, settings: Settings) -> float | None:
    if settings.floor is None:
        shares = [restart.values[place].share for restart in side]
        known = [share for share in shares if share is not None and share > 0]
        return _mean(known, True) if len(known) == len(side) else None
    streams = side[0].values[place].streams
    floor = settings.floor.get(streams or 0, settings.floor.get(0))
    at_once = {"aggregate": streams, "stream": 1}.get(place.metric)
    return None if floor is None or at_once is None else floor / 1000 * mean / at_once
