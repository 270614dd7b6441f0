"""A history on the terminal."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import groupby

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from penny_bench.history.series import Point, Series
from penny_bench.report.units import count

BARS = "▁▂▃▄▅▆▇█"
HEADS = (
    "started",
    "value",
    "to previous",
    "to best",
    "n",
    "server",
    "penny-bench",
    "driver",
    "file",
    "doubts",
)
WORDS = frozenset({0, 5, 6, 7, 8, 9})
"""Columns that hold no numbers."""


def sparkline(values: Sequence[float], width: int = 24) -> str:
    """Bars from the least to the largest of the last `width` values; in the middle where all are equal."""
    kept = values[-width:]
    low, high = min(kept), max(kept)
    if low == high:
        return BARS[3] * len(kept)
    return "".join(BARS[round((value - low) / (high - low) * (len(BARS) - 1))] for value in kept)


def print_history(series: Iterable[Series], left_out: Sequence[tuple[str, str]], console: Console) -> None:
    """Print a table for each series, under the heading of its setting."""
    for setting, group in groupby(series, key=lambda each: each.setting):
        console.print(escape(setting.title), style="bold", soft_wrap=True)
        every = list(group)
        if all(len(each.points) == 1 for each in every):
            console.print(_table("One result only", ("metric", *HEADS[1:]), every))
            continue
        for each in every:
            console.print(_table(heading(each), HEADS, [each]))
    if left_out:
        console.print(
            f"Left out: {count(len(left_out), 'file')}; the first is {left_out[0][0]}. {left_out[0][1]}",
            markup=False,
            highlight=False,
            soft_wrap=True,
        )


def _table(title: str, heads: Sequence[str], series: Sequence[Series]) -> Table:
    """A row for each value; under a head other than the usual one, the names of the series for the dates."""
    table = Table(title=escape(title), title_justify="left", box=SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for i, head in enumerate(heads):
        table.add_column(head, justify="left" if i in WORDS else "right")
    for each in series:
        for point in each.points:
            row = cells(point)
            first = row[0] if heads[0] == HEADS[0] else each.title
            style = "dim" if point.entry.doubts else colour(each, point)
            table.add_row(*map(escape, (first, *row[1:])), style=style)
    return table


def heading(series: Series) -> str:
    """Phase, metric, sparkline, and which direction is better."""
    line = sparkline([point.metric.value for point in series.points])
    better = f", {series.better} is better" if series.better else ""
    return f"{series.title}  {line}  {count(len(series.points), 'value')}{better}"


def cells(point: Point) -> tuple[str, ...]:
    """The row of a value."""
    entry = point.entry
    return (
        entry.started.strftime("%Y-%m-%d %H:%M"),
        point.metric.text,
        change(point.to_previous),
        "best" if point.to_best == 0 and not entry.doubts else change(point.to_best),
        "-" if point.metric.n is None else str(point.metric.n),
        entry.server,
        entry.penny_bench,
        entry.driver,
        entry.name,
        ", ".join(entry.doubts),
    )


def change(share: float | None) -> str:
    """A change in percent with its sign; `-` where there is nothing to compare with."""
    return "-" if share is None else f"{100 * share:+.1f} %"


def colour(series: Series, point: Point) -> str:
    """Red for a value that is worse than the one before by more than 3 %."""
    if point.to_previous is None or series.better is None:
        return ""
    worse = -point.to_previous if series.better == "higher" else point.to_previous
    return "red" if worse > 0.03 else ""
