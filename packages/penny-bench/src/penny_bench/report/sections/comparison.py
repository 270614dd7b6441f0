"""A comparison of two settings."""

from __future__ import annotations

from collections.abc import Mapping
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
    table = Table(
        ("row", "A", "B", "change, %", "interval, %", "p", "verdict"),
        tuple(_cells(row) for row in rows),
        left=frozenset({6}),
    )
    return Section(
        "comparison",
        "B against A",
        lines=tuple(lines),
        alarm=(value["sentence"],) if value.get("verdict") == "worse" else (),
        figures=(_forest(rows, margin),) if rows else (),
        tables=(table,),
        code=value.get("command") or "",
    )


def _name(row: Mapping[str, Any]) -> str:
    """What a row compares, whichever of these a comparison names."""
    streams = row.get("concurrency")
    parts = (row.get("workload"), row.get("phase"), None if streams is None else f"{streams} streams")
    metric = row.get("label") or row["metric"]
    return " ".join([*(str(part) for part in parts if part), str(metric)])


def _bounds(row: Mapping[str, Any]) -> tuple[float, float] | None:
    ratio = row.get("ratio")
    return (100 * (ratio["low"] - 1), 100 * (ratio["high"] - 1)) if ratio else None


def _cells(row: Mapping[str, Any]) -> tuple[str, ...]:
    bounds = _bounds(row)
    return (
        _name(row),
        number(row["mean_a"]),
        number(row["mean_b"]),
        f"{100 * row['change']:+.1f}",
        f"{bounds[0]:+.1f} to {bounds[1]:+.1f}" if bounds else MISSING,
        MISSING if row.get("p") is None else f"{row['p']:.3g}",
        row["verdict"],
    )


def _forest(rows: list[dict[str, Any]], margin: float | None) -> Figure:
    names = [said(_name(row)) for row in rows]
    changes = [100 * row["change"] for row in rows]
    bounds = [_bounds(row) or (change, change) for row, change in zip(rows, changes, strict=True)]
    points = {
        "type": "scatter",
        "mode": "markers",
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
        "text": [said(row["verdict"]) for row in rows],
        "hovertemplate": "%{y}: %{x:+.1f} %, %{text}<extra></extra>",
    }
    shapes: list[dict[str, Any]] = [_line(0.0, "solid")]
    if margin:
        shapes += [_line(100 * margin, "dot"), _line(-100 * margin, "dot")]
    layout = {
        "xaxis": axis("change from A to B, %"),
        "yaxis": {"autorange": "reversed", "automargin": True},
        "height": 150 + 34 * len(rows),
        "shapes": shapes,
        "showlegend": False,
    }
    return Figure("Changes with their intervals; dotted lines are the margin.", [points], layout)


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
