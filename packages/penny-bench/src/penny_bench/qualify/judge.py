"""Whether a run reached its marks."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Any

from penny_bench.qualify.plan import Mark, PlannedRun


@dataclass(frozen=True)
class Judged:
    """A mark and what was reached.

    Attributes:
        what: the number in words.
        limit: the mark in words.
        value: what was reached; None if the run has no such number.
        unit: of the value.
        passed: whether it was reached; a missing number never passes.
        detail: why not, where the number alone does not say it.
    """

    what: str
    limit: str
    value: float | None
    unit: str
    passed: bool
    detail: str = ""


def judge(run: PlannedRun, document: dict[str, Any]) -> list[Judged]:
    """All marks of a run, the ones that always hold first."""
    found: list[Judged] = []
    if document["status"] != "complete":
        found.append(Judged("complete", "yes", None, "", False, f"the run is {document['status']}"))
    if document["cache"]["verdict"] == "contaminated" and not run.allow_cached:
        most = document["cache"]["most"]
        found.append(
            Judged("cached prompt tokens", "none", most, "tokens", False, "a prefix cache took part")
        )
    marks = run.marks
    if not any(mark.failures for mark in marks):
        marks = (Mark(failures=True, at_most=0), *marks)
    return found + [_mark(mark, document) for mark in marks]


def _mark(mark: Mark, document: dict[str, Any]) -> Judged:
    value, unit = _value(mark, document)
    if value is None:
        return Judged(mark.what, mark.limit, None, unit, False, "the run has no such number")
    low, high = mark.at_least, mark.at_most
    passed = (low is None or value >= low) and (high is None or value <= high)
    return Judged(mark.what, mark.limit, value, unit, passed)


def _value(mark: Mark, document: dict[str, Any]) -> tuple[float | None, str]:
    if mark.failures:
        return float(sum(document["summary"]["errors"].values())), "requests"
    if mark.metric is not None:
        phase, _, key = mark.metric.rpartition("/")
        for metric in document["metrics"]:
            if metric["key"] == key and (metric["phase"] or "") == phase:
                return metric["value"], metric["unit"]
        return None, ""
    pattern = mark.checks if mark.checks is not None else mark.points
    rows = [row for row in _rows(document) if fnmatchcase(row["case"], str(pattern))]
    if mark.points is not None:
        return (sum(row["points"] for row in rows), "points") if rows else (None, "points")
    decided = [row["passed"] for row in rows if row["passed"] is not None]
    return (sum(decided) / len(decided), "of 1") if decided else (None, "of 1")


def _rows(document: dict[str, Any]) -> Iterable[dict[str, Any]]:
    checks = document["checks"]
    return checks["rows"] if checks else ()
