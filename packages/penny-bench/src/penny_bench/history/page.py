"""A history as report page and as JSON document."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from penny_bench.history.point import Setting
from penny_bench.history.series import Point, Series
from penny_bench.history.text import HEADS, WORDS, cells, change
from penny_bench.report.plot import axis, colour, rounded, said
from penny_bench.report.section import Choice, Figure, Report, Section, Table

SCHEMA = "penny-bench/history/1"
COMMAND = 160
"""Characters of a command that a label shows."""


def history_report(series: Iterable[Series], left_out: Sequence[tuple[str, str]]) -> Report:
    """A section for each setting: a plot with a picker for the metric, and a table for each."""
    sections = [
        _section(f"s{i}", setting, list(group))
        for i, (setting, group) in enumerate(groupby(series, key=lambda each: each.setting), start=1)
    ]
    if left_out:
        table = Table(("file", "reason"), tuple(left_out), left=frozenset({1}))
        sections.append(Section("left-out", "Files that were left out", tables=(table,)))
    return Report("History", "history", tuple(sections))


def history_document(
    series: Iterable[Series], left_out: Sequence[tuple[str, str]], version: str
) -> dict[str, Any]:
    """The JSON document; changes are shares."""
    return {
        "schema": SCHEMA,
        "penny_bench": version,
        "series": [
            {
                "setting": asdict(each.setting),
                "phase": each.phase,
                "key": each.key,
                "label": each.label,
                "unit": each.unit,
                "better": each.better,
                "points": [_point(point) for point in each.points],
            }
            for each in series
        ],
        "left_out": [{"file": name, "reason": reason} for name, reason in left_out],
    }


def _point(point: Point) -> dict[str, Any]:
    entry = point.entry
    return {
        "file": entry.name,
        "sha256": entry.sha256,
        "started": entry.started.isoformat(),
        "value": point.metric.value,
        "n": point.metric.n,
        "to_previous": point.to_previous,
        "to_best": point.to_best,
        "server": entry.server,
        "penny_bench": entry.penny_bench,
        "driver": entry.driver,
        "command": entry.command,
        "doubts": list(entry.doubts),
    }


def _section(key: str, setting: Setting, series: list[Series]) -> Section:
    lines = [
        "Values of one workload, model and GPU in order of date. Those in doubt (hollow) are neither a best nor a "
        "predecessor."
    ]
    figures: tuple[Figure, ...] = ()
    if any(len(each.points) > 1 for each in series):
        choices = tuple(Choice(f"{each.title}, {_unit(each)}", _traces(each)) for each in series)
        layout = {"xaxis": axis("", type="date"), "yaxis": axis(""), "height": 380, "showlegend": False}
        figures = (
            Figure("Value of each result over time; point at one for its command.", [], layout, choices),
        )
    else:
        lines.append("There is one result only, so no trend is drawn.")
    tables = tuple(
        Table(HEADS, tuple(cells(point) for point in each.points), caption=_caption(each), left=WORDS)
        for each in series
    )
    return Section(key, setting.title, lines=tuple(lines), figures=figures, tables=tables)


def _unit(series: Series) -> str:
    """Of the plot, which shows seconds as milliseconds."""
    return "ms" if series.unit == "s" else series.unit


def _caption(series: Series) -> str:
    return series.title + (f", {series.better} is better" if series.better else "")


def _traces(series: Series) -> list[dict[str, Any]]:
    seconds = series.unit == "s"
    values = [point.metric.value * (1000 if seconds else 1) for point in series.points]
    labels = [_hover(point) for point in series.points]
    trace = {
        "type": "scatter",
        "mode": "lines+markers",
        "name": said(series.title),
        "x": [point.entry.started.isoformat() for point in series.points],
        "y": rounded(values),
        "text": labels,
        "line": {"color": colour(0)},
        "marker": {
            "size": 9,
            "color": colour(0),
            "symbol": ["circle-open" if point.entry.doubts else "circle" for point in series.points],
        },
        "hovertemplate": f"%{{y}} {said(_unit(series))}<br>%{{text}}<extra></extra>",
    }
    return [trace]


def _hover(point: Point) -> str:
    entry = point.entry
    command = entry.command if len(entry.command) <= COMMAND else f"{entry.command[:COMMAND]} ..."
    lines = (
        f"{entry.started:%Y-%m-%d %H:%M}, {entry.name}",
        f"{change(point.to_previous)} to previous, {change(point.to_best)} to best",
        f"server {entry.server}, penny-bench {entry.penny_bench}, driver {entry.driver}",
        command,
        ", ".join(entry.doubts),
    )
    return "<br>".join(said(line) for line in lines if line)
