"""A comparison of two settings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from penny_bench.report.plot import axis, colour, rounded, said
from penny_bench.report.read import Document
from penny_bench.report.section import Figure, Section, Table
from penny_bench.report.units import MISSING, number

COLOURS = {"better": colour(1), "worse": colour(5), "undecided": colour(2)}


def comparison(document: Document) -> Section:
    """Forest plot of the changes with their intervals, and the table."""
    value = document.value
    rows = value["rows"]
    alpha = (value.get("settings") or {}).get("alpha", 0.05)
    margin = (value.get("settings") or {}).get("margin")
    lines = [
        f"Change from A to B with its {100 * (1 - alpha):g} % interval, each row alone; the unit is the restart of the "
        f"server ({len(value['a'])} of A, {len(value['b'])} of B).",
        *value.get("notes", ()),
    ]
    names = _names(rows)
    table = Table(
        ("row", "A", "B", "change, %", "interval, %", "p", "verdict"),
        tuple(_cells(name, row) for name, row in zip(names, rows, strict=True)),
        left=frozenset({6}),
    )
    drawn = [(row, name) for row, name in zip(rows, names, strict=True) if row["change"] is not None]
    return Section(
        "comparison",
        "B against A",
        lines=tuple(lines),
        alarm=(value["sentence"],) if value.get("verdict") == "worse" else (),
        figures=(_forest([row for row, _ in drawn], [name for _, name in drawn], margin),) if drawn else (),
        tables=(table,),
        code=value.get("command") or "",
    )


def _name(row: Mapping[str, Any], several: bool) -> str:
    """What a row compares; the workload only where there is more than one."""
    streams = row.get("concurrency")  # of the documents before there were phases
    phase = row.get("phase") or (None if streams is None else f"{streams} streams")
    metric = row.get("label") or row["metric"]
    return " ".join(str(part) for part in (row.get("workload") if several else None, phase, metric) if part)


def _names(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    several = len({row.get("workload") for row in rows}) > 1
    return [_name(row, several) for row in rows]


def _bounds(row: Mapping[str, Any]) -> tuple[float, float] | None:
    """The interval of the change, %; None where the restarts show no spread."""
    ratio = row.get("ratio")
    if not ratio or ratio.get("spread") == 0:
        return None
    return 100 * (ratio["low"] - 1), 100 * (ratio["high"] - 1)


def _cells(name: str, row: Mapping[str, Any]) -> tuple[str, ...]:
    bounds, unit = _bounds(row), row.get("unit") or ""
    return (
        f"{name}, {unit}" if unit else name,
        number(row["mean_a"]),
        number(row["mean_b"]),
        MISSING if row["change"] is None else f"{100 * row['change']:+.1f}",
        f"{bounds[0]:+.1f} to {bounds[1]:+.1f}" if bounds else MISSING,
        MISSING if row.get("p") is None else f"{row['p']:.3g}",
        row["verdict"] or MISSING,
    )


def _forest(rows: Sequence[Mapping[str, Any]], names: Sequence[str], margin: float | None) -> Figure:
    """Rows that have a change: a point with its interval, and small points for the restarts of B."""
    names = [said(name) for name in names]
    changes = [100 * row["change"] for row in rows]
    bounds = [_bounds(row) or (change, change) for row, change in zip(rows, changes, strict=True)]
    points = {
        "type": "scatter",
        "mode": "markers",
        "name": "change",
        "x": rounded(changes),
        "y": names,
        "error_x": {
            "type": "data",
            "symmetric": False,
            "array": rounded(high - change for (_, high), change in zip(bounds, changes, strict=True)),
            "arrayminus": rounded(change - low for (low, _), change in zip(bounds, changes, strict=True)),
            "color": "var(--ink)",
        },
        "marker": {"size": 11, "color": [COLOURS.get(row["verdict"], colour(0)) for row in rows]},
        "text": [said(row["verdict"] or "no verdict") for row in rows],
        "hovertemplate": "%{y}: %{x:+.1f} %, %{text}<extra></extra>",
    }
    single = [
        (name, 100 * (value / row["mean_a"] - 1))
        for name, row in zip(names, rows, strict=True)
        for value in row.get("b") or ()
        if row["mean_a"]
    ]
    dots = {
        "type": "scatter",
        "mode": "markers",
        "name": "a restart of B against the mean of A",
        "x": rounded(x for _, x in single),
        "y": [name for name, _ in single],
        "marker": {"size": 5, "color": "var(--soft)"},
        "hovertemplate": "%{x:+.1f} %<extra></extra>",
    }
    shapes: list[dict[str, Any]] = [_line(0.0, "solid")]
    if margin:
        shapes += [_line(100 * margin, "dot"), _line(-100 * margin, "dot")]
    layout = {
        "xaxis": axis("change from A to B, %"),
        "yaxis": {"autorange": "reversed", "automargin": True},
        "height": 170 + 34 * len(rows),
        "shapes": shapes,
    }
    title = "Changes with their intervals; dotted lines are the margin."
    return Figure(title, [points, dots] if single else [points], layout)


def _line(x: float, dash: str) -> dict[str, Any]:
    return {
        "type": "line",
        "xref": "x",
        "yref": "paper",
        "x0": x,
        "x1": x,
        "y0": 0,
        "y1": 1,
        "line": {"color": "var(--ink)", "width": 1, "dash": dash},
    }
