"""Pieces that the figures share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from html import escape
from typing import Any

import numpy as np

from penny_bench.report.entry import Entry, Floats
from penny_bench.report.sheet import Span

COLOURS = 8
"""Colours that the page has; what needs more is drawn as one."""


def colour(index: int) -> str:
    """Colour `index` of the page."""
    return f"var(--s{index % COLOURS + 1})"


def rounded(values: Iterable[float], digits: int = 5) -> list[float]:
    """`values` with so many significant digits: what a plot shows, in fewer bytes."""
    return [float(f"{value:.{digits}g}") for value in values]


def axis(title: str, **more: Any) -> dict[str, Any]:
    """An axis with its title, which says the unit."""
    return {"title": {"text": title}, **more}


def shading(spans: Sequence[Span]) -> dict[str, Any]:
    """Shapes and labels of the phases for a layout whose x axis is time. Labels stand above the plot."""
    if len(spans) < 2:
        return {}
    shapes = [
        {
            "type": "rect",
            "xref": "x",
            "yref": "paper",
            "x0": span.started,
            "x1": span.ended,
            "y0": 0,
            "y1": 1,
            "line": {"width": 0},
            "layer": "below",
            "fillcolor": "var(--shade-warm)" if span.warmup else f"var(--shade{i % 2 + 1})",
        }
        for i, span in enumerate(spans)
    ]
    total = max(span.ended for span in spans) - min(span.started for span in spans)
    labels = [
        {
            "x": (span.started + span.ended) / 2,
            "y": 1,
            "xref": "x",
            "yref": "paper",
            "yanchor": "bottom",
            "showarrow": False,
            "text": said(span.name),
            "hovertext": said(span.label),
        }
        for span in spans
        if span.ended - span.started > 0.04 * total
    ]
    return {"shapes": shapes, "annotations": labels}


def wide(values: Floats) -> bool:
    """Whether values spread so far that only a logarithmic axis shows them."""
    low, high = np.percentile(values, [1, 99])
    return bool(low > 0 and high / low > 20)


def ecdf(values: Floats, points: int = 240) -> tuple[list[float], list[float]]:
    """Values and the share of all that is at most as large; of many values, only so many ranks and the tails."""
    data = np.sort(values)
    ranks = np.arange(1, data.size + 1)
    if data.size > points:
        inner = np.linspace(1, data.size, points)
        tail = data.size * (1 - np.geomspace(0.01, 1 / data.size, 40))
        ranks = np.unique(np.ceil(np.concatenate([inner, tail, [data.size]])).astype(int))
    return rounded(data[ranks - 1]), rounded(ranks / data.size)


def histogram(values: Floats, edges: Floats) -> tuple[list[float], list[float]]:
    """Outline of the counts between `edges`, as points of a line with steps."""
    counts, _ = np.histogram(values, edges)
    return rounded(edges), [*counts.astype(float).tolist(), 0.0]


def edges(values: Floats, bins: int = 60) -> Floats:
    """Edges of bins from the least to the largest value; even in the logarithm where values are wide."""
    low, high = float(values.min()), float(values.max())
    if low == high:
        low, high = low * 0.99, high * 1.01 + 1e-9
    bins = max(5, min(bins, 2 * int(np.sqrt(values.size)) + 4))
    return np.geomspace(low, high, bins + 1) if wide(values) else np.linspace(low, high, bins + 1)


def sample(count: int, limit: int) -> list[int]:
    """At most `limit` numbers below `count`, evenly apart, the first and the last among them."""
    if count <= limit:
        return list(range(count))
    return sorted(set(np.linspace(0, count - 1, limit).round().astype(int).tolist()))


def cloud(
    entries: Sequence[Entry],
    x: Callable[[Entry], float | None],
    y: Callable[[Entry], float],
    text: Callable[[Entry], str],
    hover: str,
) -> list[dict[str, Any]]:
    """A point for each request, in the colour of its phase; in one colour where there are more phases than colours."""
    phases = list(dict.fromkeys(entry.phase for entry in entries))
    groups = [(name, [entry for entry in entries if entry.phase == name]) for name in phases]
    if len(groups) > COLOURS:
        groups = [("all phases", list(entries))]
    return [
        {
            "type": "scatter",
            "mode": "markers",
            "name": said(name),
            "x": [x(entry) for entry in group],
            "y": rounded(y(entry) for entry in group),
            "text": [text(entry) for entry in group],
            "marker": {"color": colour(i), "size": 7, "opacity": 0.75},
            "hovertemplate": hover,
        }
        for i, (name, group) in enumerate(groups)
    ]


def said(text: object) -> str:
    """Text of a document for a plot, where plotly.js would read tags in it."""
    return escape(str(text), quote=False)
