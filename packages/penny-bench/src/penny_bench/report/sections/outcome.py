"""What was right and what failed."""

from __future__ import annotations

from collections import Counter

from penny_bench.report.section import Section, Table
from penny_bench.report.sheet import Sheet
from penny_bench.report.units import count

ROWS = 400
"""Rows of a table of checks or of failures; failed ones come first."""
MESSAGE = 400
_ORDER = {False: 0, None: 1, True: 2}
_RESULT = {False: "FAILED", None: "to be judged", True: "passed"}


def checks(sheet: Sheet) -> Section:
    """Each check of the workload's cases: passed or failed, and why."""
    key, title = "checks", "Checks"
    told = sheet.value.get("checks")
    if not told:
        return Section(key, title, absent="The workload checks no answer: only times were measured.")
    rows = sorted(told.get("rows") or [], key=lambda row: _ORDER[row["passed"]])
    failed = sum(row["passed"] is False for row in rows) if rows else told["total"] - told["passed"]
    lines = [f"{told['passed']:,} of {count(told['total'], 'check')} passed."]
    if told.get("open"):
        lines.append(f"{told['open']:,} are for a person to judge.")
    if told.get("score") is not None:
        lines.append(f"Score: {_points(told['score'], told.get('of'))}.")
    if len(rows) > ROWS:
        lines.append(f"{ROWS} of {len(rows):,} are listed, the failed ones first.")
    cells = tuple(
        (
            row["case"] or "-",
            row["name"],
            _RESULT[row["passed"]],
            _points(row.get("points"), row.get("of")),
            row.get("detail") or "",
        )
        for row in rows[:ROWS]
    )
    alarm = (f"{count(failed, 'check')} failed.",) if failed else ()
    table = Table(("case", "check", "result", "points", "detail"), cells, left=frozenset({1, 2, 4}))
    return Section(key, title, lines=tuple(lines), alarm=alarm, tables=(table,) if cells else ())


def failures(sheet: Sheet) -> Section:
    """Requests that failed, with their reasons."""
    key, title = "failures", "Failures"
    failed = [entry for entry in sheet.entries if entry.failure]
    if not failed:
        if not sheet.entries:
            return Section(key, title, absent="No single request is in this document.")
        return Section(key, title, lines=(f"None of {count(len(sheet.entries), 'request')} failed.",))
    kinds = Counter(entry.failure[0] for entry in failed if entry.failure)
    lines = [
        f"{len(failed):,} of {count(len(sheet.entries), 'request')} failed: "
        + ", ".join(f"{n:,} {kind}" for kind, n in kinds.most_common())
        + "."
    ]
    same = Counter((entry.phase, *(entry.failure or ("", ""))) for entry in failed)
    if len(same) > ROWS:
        lines.append(f"{ROWS} of {len(same):,} different ones are listed.")
    rows = tuple(
        (phase, kind, f"{n:,}", _short(message)) for (phase, kind, message), n in same.most_common(ROWS)
    )
    table = Table(("phase", "kind", "requests", "message"), rows, left=frozenset({1, 3}))
    return Section(key, title, lines=tuple(lines), tables=(table,))


def _points(points: float | None, of: float | None) -> str:
    if points is None or (of is not None and not of):
        return "-"
    return f"{points:g}" if of is None else f"{points:g} of {of:g}"


def _short(message: str) -> str:
    return message if len(message) <= MESSAGE else f"{message[:MESSAGE]} ..."
