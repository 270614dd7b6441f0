"""Two sides compared, row by row."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from penny_bench.compare.check import check
from penny_bench.compare.restart import Restart
from penny_bench.compare.row import ComparisonRow, judge, make_row
from penny_bench.compare.select import in_all, select
from penny_bench.compare.settings import Settings
from penny_bench.compare.verdict import Verdict, overall
from penny_bench.errors import BenchError
from penny_bench.stats import holm


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
    places = select([*a, *b], settings.metrics)
    common = in_all([*a, *b], places)
    faults, notes = check(a, b, places)
    if faults and not (settings.force and common):
        more = f" And {len(faults) - 3} more." if len(faults) > 3 else ""
        hint = " Measure again, or pass --force to compare all the same." if common else ""
        raise BenchError(f"These results cannot be compared. {' '.join(faults[:3])}{more}{hint}")
    drafts = [make_row(a, b, place, settings) for place in common]
    _check_floor(drafts, settings)
    if settings.paired and not _alternate(a, b):
        notes.append("The runs of the two sides did not alternate pair by pair, so drift does not cancel.")
    tested = [row for row in drafts if row.metric.better and row.ratio]
    adjusted = dict(
        zip((row.place for row in tested), holm([row.ratio.p for row in tested if row.ratio]), strict=True)
    )
    rows = tuple(judge(row, adjusted.get(row.place), len(tested), settings) for row in drafts)
    words = overall(row.verdict for row in rows if row.verdict)
    return Comparison(tuple(a), tuple(b), settings, rows, words, (*faults, *notes))


def _check_floor(rows: Sequence[ComparisonRow], settings: Settings) -> None:
    measured = {row.streams for row in rows if row.streams}
    if unmeasured := set(settings.floor or {}) - {0, *measured}:
        raise BenchError(
            f"There is a floor for {min(unmeasured)} streams, but only "
            f"{', '.join(map(str, sorted(measured))) or 'runs without a number of them'} were measured on both "
            f"sides; correct --floor."
        )


def _alternate(a: Sequence[Restart], b: Sequence[Restart]) -> bool:
    pairs = [{x.started, y.started} for x, y in zip(a, b, strict=True)]
    return all(max(first) <= min(second) for first, second in pairwise(pairs))
