"""All requests over the run."""

from __future__ import annotations

from typing import Any

from penny_bench.report.entry import Entry
from penny_bench.report.plot import axis, colour, rounded, said, sample, shading
from penny_bench.report.section import Figure, Section
from penny_bench.report.sheet import Sheet

LIMIT = 400
SLOWEST = 40


def gantt(sheet: Sheet) -> Section:
    """A line for each request: waiting, reasoning, answering."""
    key, title = "gantt", "All requests over time"
    known = sorted(
        (e for e in sheet.entries if e.sent is not None and e.ended is not None), key=lambda e: e.sent or 0.0
    )
    if not known:
        return Section(key, title, absent="When requests were sent is not in this document.")
    lines = ["One line for each request, in the order in which they were sent."]
    drawn = known
    if len(known) > LIMIT:
        slow = sorted(known, key=lambda e: -((e.ended or 0.0) - (e.sent or 0.0)))[:SLOWEST]
        wanted = {id(e) for e in slow} | {id(known[i]) for i in sample(len(known), LIMIT - SLOWEST)}
        drawn = [e for e in known if id(e) in wanted]
        lines.append(
            f"{len(drawn):,} of {len(known):,} are drawn: the {SLOWEST} slowest, and others evenly chosen."
        )
    traces = [
        _lines("waiting for the first token", drawn, 7, _waiting),
        _lines("reasoning", drawn, 4, _reasoning),
        _lines("answering", drawn, 0, _answering),
        _lines("end", drawn, 2, _end),
        _failures(drawn),
    ]
    layout = {
        "xaxis": axis("s since the start"),
        "yaxis": axis("request", autorange="reversed"),
        "height": min(700, 180 + 9 * len(drawn)),
        **shading(sheet.spans),
    }
    figure = Figure("Each request from sent to the end of its stream.", [t for t in traces if t["x"]], layout)
    return Section(key, title, lines=tuple(lines), figures=(figure,))


Stretch = tuple[float, float] | None


def _waiting(entry: Entry) -> Stretch:
    if entry.sent is None or entry.ended is None:
        return None
    return entry.sent, entry.ended if entry.first_token is None else entry.first_token


def _reasoning(entry: Entry) -> Stretch:
    if entry.first_reasoning is None or entry.last_token is None:
        return None
    return entry.first_reasoning, entry.last_token if entry.first_content is None else entry.first_content


def _answering(entry: Entry) -> Stretch:
    start = entry.first_content
    if start is None and entry.first_reasoning is None:
        start = entry.first_token
    return None if start is None or entry.last_token is None else (start, entry.last_token)


def _end(entry: Entry) -> Stretch:
    return None if entry.last_token is None or entry.ended is None else (entry.last_token, entry.ended)


def _lines(name: str, entries: list[Entry], index: int, stretch: Any) -> dict[str, Any]:
    x: list[float | None] = []
    y: list[int | None] = []
    text: list[str | None] = []
    for row, entry in enumerate(entries):
        found = stretch(entry)
        if found and found[1] > found[0]:
            x += [*rounded(found, 7), None]
            y += [row, row, None]
            label = f"No. {entry.number}, {said(entry.phase)}"
            text += [label, label, None]
    return {
        "type": "scatter",
        "mode": "lines" if len(entries) <= 60 else "lines+markers",
        "marker": {"size": 2, "color": colour(index)},
        "name": name,
        "x": x,
        "y": y,
        "text": text,
        "connectgaps": False,
        "line": {"color": colour(index), "width": 5 if len(entries) <= 60 else 2},
        "hovertemplate": "%{text}: %{x:.3f} s",
    }


def _failures(entries: list[Entry]) -> dict[str, Any]:
    rows = [(row, entry) for row, entry in enumerate(entries) if entry.failure]
    return {
        "type": "scatter",
        "mode": "markers",
        "name": "failed",
        "x": rounded((entry.ended or 0.0 for _, entry in rows), 7),
        "y": [row for row, _ in rows],
        "text": [f"No. {entry.number}: {said((entry.failure or ('', ''))[0])}" for _, entry in rows],
        "marker": {"symbol": "x", "size": 9, "color": colour(5)},
        "hovertemplate": "%{text}<extra></extra>",
    }
