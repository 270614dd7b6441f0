"""One request from the moment it was sent to the end of its stream."""

from __future__ import annotations

from typing import Any

from penny_bench.report.entry import Entry
from penny_bench.report.plot import axis, colour, rounded, sample
from penny_bench.report.section import Choice, Figure, Section, Table
from penny_bench.report.sections.stages import ORDER, Stage, stages
from penny_bench.report.sheet import Sheet
from penny_bench.report.units import MISSING, ms, time

CHOICES = 40
EVENTS = 120
COLOURS = dict(zip(ORDER, map(colour, (6, 1, 7, 3, 4, 0, 0, 2)), strict=True))


def waterfall(sheet: Sheet) -> Section:
    """The stages of the slowest request and of the median one, with a picker for others."""
    key, title = "waterfall", "Waterfall of one request"
    ranked = sorted(
        (entry for entry in sheet.good if entry.latency.get("e2e") is not None and stages(entry)),
        key=lambda entry: -(entry.latency["e2e"] or 0),
    )
    if not ranked:
        return Section(key, title, absent="No request succeeded whose times are known.")
    slowest, median = ranked[0], ranked[len(ranked) // 2]
    others = [ranked[i] for i in sample(len(ranked), CHOICES) if ranked[i] not in (slowest, median)]
    failed = [entry for entry in sheet.entries if entry.failure and stages(entry)][: CHOICES // 4]
    named = [
        ("slowest", slowest),
        ("median", median),
        *((f"rank {ranked.index(entry) + 1} by time", entry) for entry in others),
        *((f"failed: {entry.failure[0]}", entry) for entry in failed if entry.failure),
    ]
    lines = ["Stages since the request was sent; marks at the bottom are the events that brought tokens."]
    if not any(entry.spans for _, entry in named):
        lines.append(
            "The server did not tell its own spans, so queue and prefill are not told apart: all is one stage up to "
            "the first token."
        )
    if len(named) < len(sheet.entries):
        lines.append(
            f"The picker has {len(named)} of {len(sheet.entries):,} requests: the slowest, the median, others evenly "
            f"by rank, and some that failed."
        )
    choices = [Choice(_label(role, entry), _traces(entry)) for role, entry in named]
    met = {stage.name for _, entry in named for stage in stages(entry)}
    layout = _layout([name for name in ORDER if name in met])
    first = Figure("Slowest request; pick another.", [], layout, tuple(choices))
    second = Figure("Median request; pick another.", [], layout, (choices[1], choices[0], *choices[2:]))
    figures = (first,) if len(ranked) == 1 else (first, second)
    rows = [(_label(role, entry), *_cells(entry)) for role, entry in named[:2]]
    table = Table(("request, ms", *ORDER), tuple(dict.fromkeys(rows)))
    return Section(key, title, lines=tuple(lines), figures=figures, tables=(table,))


def _layout(shown: list[str]) -> dict[str, Any]:
    return {
        "xaxis": axis("ms since it was sent", rangemode="tozero"),
        "yaxis": {
            "categoryorder": "array",
            "categoryarray": ["events", *reversed(shown)],
            "automargin": True,
        },
        "height": 110 + 28 * len(shown),
        "showlegend": False,
        "bargap": 0.25,
        "penny_right": 50,
    }


def _label(role: str, entry: Entry) -> str:
    where = ", ".join(filter(None, (entry.phase, entry.case)))
    total = entry.latency.get("e2e")
    if total is None and entry.ended is not None and entry.sent is not None:
        total = entry.ended - entry.sent
    return f"No. {entry.number}, {role}, {time(total)} ({where})"


def _cells(entry: Entry) -> list[str]:
    lengths = {stage.name: stage.end - stage.start for stage in stages(entry)}
    return [ms(lengths[name]) if name in lengths else MISSING for name in ORDER]


def _traces(entry: Entry) -> list[dict[str, Any]]:
    found = stages(entry)
    times = entry.times[sample(entry.times.size, EVENTS)] - (entry.sent or 0.0)
    events = {
        "type": "scatter",
        "mode": "markers",
        "x": rounded(1000 * times, 6),
        "y": ["events"] * times.size,
        "marker": {"symbol": "line-ns-open", "size": 9, "color": "var(--ink)"},
        "hovertemplate": "%{x:.1f} ms<extra></extra>",
    }
    return [_bar(stage) for stage in found] + ([events] if times.size else [])


def _bar(stage: Stage) -> dict[str, Any]:
    length = 1000 * (stage.end - stage.start)
    return {
        "type": "bar",
        "orientation": "h",
        "y": [stage.name],
        "base": rounded([1000 * stage.start], 6),
        "x": rounded([length], 6),
        "marker": {"color": COLOURS[stage.name]},
        "text": [f"{time(length / 1000)}"],
        "textposition": "auto",
        "cliponaxis": False,
        "hovertemplate": f"{stage.name}: {time(length / 1000)}<extra></extra>",
    }
