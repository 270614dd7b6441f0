"""What a comparison says, in sentences."""

from __future__ import annotations

from penny_bench.compare.comparison import Comparison
from penny_bench.compare.row import ComparisonRow

MOST = 6
"""Rows that a sentence names; of more it tells the number."""


def sentence(comparison: Comparison) -> str:
    """The verdict on all rows in words."""
    margin = f"{100 * comparison.settings.margin:.3g} %"
    word = comparison.verdict
    where = _names(comparison, word)
    better = _names(comparison, "better")
    also = f" It is better at {better}." if better and word != "better" else ""
    if not any(row.verdict for row in comparison.rows):
        return "Undecided: none of these numbers can be better or worse."
    return {
        "better": f"B is better than A at {where}.",
        "equal": f"B equals A within {margin} at {where}.",
        "no worse": f"B is not worse than A by {margin} or more anywhere.{also}",
        "worse": f"B is worse than A at {where}.{also}",
        "undecided": f"Undecided at {where}: no difference shown, and one of {margin} not excluded.{also}",
    }[word]


def notes(comparison: Comparison) -> list[str]:
    """What weakens the verdict, and what it would take to decide."""
    lines = list(comparison.notes)
    if min(len(comparison.a), len(comparison.b)) < 2:
        lines.append("One restart a side shows no spread, so nothing can be told; see penny-bench plan.")
    least = [
        f"{percent(row.detectable)} at {row_name(comparison, row)}"
        for row in comparison.rows
        if row.verdict == "undecided" and row.detectable is not None
    ]
    if least:
        lines.append(
            f"So many restarts with such spreads detect, in 80 % of the cases: {', '.join(least)}. More restarts "
            f"detect less; see penny-bench plan."
        )
    for row in comparison.rows:
        lines += _row_notes(row, row_name(comparison, row))
    return lines


def row_name(comparison: Comparison, row: ComparisonRow) -> str:
    """Phase and label of a row, with its workload where there are several."""
    several = several_workloads(comparison) and row.place.workload != row.place.phase
    return f"{f'{row.place.workload} ' if several else ''}{row.place.phase} ({row.metric.label})"


def percent(share: float) -> str:
    """In percent, two digits; beyond a doubling the size is of no use."""
    return f"{100 * share:.2g} %" if share <= 1 else "over 100 %"


def several_workloads(comparison: Comparison) -> bool:
    """Whether the rows are of more than one workload."""
    return len({row.place.workload for row in comparison.rows}) > 1


def _row_notes(row: ComparisonRow, name: str) -> list[str]:
    lines = [
        f"{name}: {side} is faster than the stated floor, which is then no floor."
        for side, share in (("A", row.floor_a), ("B", row.floor_b))
        if share and share > 1
    ]
    if row.verdict == "undecided" and row.change is None:
        lines.append(
            f"{name}: a value is not positive, so there is no ratio to test; leave it out with --metric."
        )
    elif row.verdict and row.steady:
        lines.append(f"{name}: the same value in every restart of a side; p is that of the permutation test.")
    return lines


def _names(comparison: Comparison, word: str) -> str:
    names = [row_name(comparison, row) for row in comparison.rows if row.verdict == word]
    more = f" and {len(names) - MOST} more" if len(names) > MOST else ""
    return ", ".join(names[:MOST]) + more
