"""Tokens over time, as the server counted them."""

from __future__ import annotations

from typing import Any

import numpy as np

from penny_bench.report.entry import Entry, Floats
from penny_bench.report.plot import axis, colour, rounded, shading
from penny_bench.report.section import Figure, Section, Table
from penny_bench.report.sheet import Sheet
from penny_bench.report.units import number, time

BINS = 400
WIDTHS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)


def tokens(sheet: Sheet) -> Section:
    """Rate of tokens and streams that were open, over the run."""
    key, title = "tokens", "Tokens over time"
    drawn = [entry for entry in sheet.entries if entry.times.size and entry.sent is not None]
    if not drawn:
        return Section(key, title, absent="When tokens came is not in this document.")
    first = min(entry.sent or 0.0 for entry in drawn)
    last = max(float(entry.times[-1]) for entry in drawn)
    width = bin_width(last - first)
    bounds = first + width * np.arange(int((last - first) / width) + 2, dtype=float)
    came = per_bin(drawn, bounds)
    waiting, decoding = open_streams(drawn, bounds)
    even = sum(entry.brought is None for entry in drawn)
    lines = [
        f"The server's own counts, in bins of {time(width)}; below, the streams that were open, on average in each bin."
    ]
    if even:
        lines.append(
            f"For {even:,} of {len(drawn):,} requests the server did not say what an event brought: their tokens are "
            f"spread evenly over their events."
        )
    x = rounded(bounds)
    traces = [
        _step("tok/s", x, came / width, 0, "y", "%{y:.1f} tok/s"),
        _step("decoding", x, decoding, 2, "y2", "%{y:.2f}"),
        _step("waiting for a first token", x, waiting, 7, "y2", "%{y:.2f}"),
    ]
    figure = Figure("Tokens per second above, open streams below.", traces, _layout(sheet))
    return Section(key, title, lines=tuple(lines), figures=(figure,), tables=_table(sheet))


def bin_width(seconds: float) -> float:
    """The least round width that gives at most `BINS` bins, s."""
    return next((width for width in WIDTHS if seconds / width <= BINS), seconds / BINS)


def per_bin(entries: list[Entry], bounds: Floats) -> Floats:
    """Tokens that came in each bin."""
    times = np.concatenate([entry.times for entry in entries])
    brought = np.concatenate([entry.spread for entry in entries])
    return np.histogram(times, bounds, weights=brought)[0]


def open_streams(entries: list[Entry], bounds: Floats) -> tuple[Floats, Floats]:
    """Streams that waited for a first token, and streams between first and last token: means of each bin."""
    waiting, decoding = [], []
    for entry in entries:
        start, first, last = entry.sent or 0.0, float(entry.times[0]), float(entry.times[-1])
        waiting.append((start, first))
        decoding.append((first, last))
    return _mean_open(waiting, bounds), _mean_open(decoding, bounds)


def _mean_open(stretches: list[tuple[float, float]], bounds: Floats) -> Floats:
    """The integral of how many are open is piecewise linear: sum of (t - start)+ minus sum of (t - end)+."""
    total = np.zeros(bounds.size)
    for moments, sign in zip(np.array(stretches).T, (1.0, -1.0), strict=True):
        moments = np.sort(moments)
        passed = np.searchsorted(moments, bounds, side="right")
        sums = np.concatenate([[0.0], np.cumsum(moments)])
        total += sign * (passed * bounds - sums[passed])
    found: Floats = np.diff(total) / np.diff(bounds)
    return np.maximum(found, 0.0)


def _step(name: str, x: list[float], y: Floats, index: int, where: str, hover: str) -> dict[str, Any]:
    return {
        "type": "scatter",
        "mode": "lines",
        "name": name,
        "x": x,
        "y": [*rounded(y), 0.0],
        "yaxis": where,
        "line": {"shape": "hv", "width": 1.5, "color": colour(index)},
        "hovertemplate": hover,
    }


def _layout(sheet: Sheet) -> dict[str, Any]:
    return {
        "xaxis": axis("s since the start", anchor="y2"),
        "yaxis": axis("tok/s", domain=[0.4, 1], rangemode="tozero"),
        "yaxis2": axis("streams", domain=[0, 0.32], rangemode="tozero"),
        "height": 440,
        "hovermode": "x unified",
        **shading(sheet.spans),
    }


def _table(sheet: Sheet) -> tuple[Table, ...]:
    rows = []
    for name in sheet.phases:
        entries = sheet.of_phase(name)
        known = [entry.output_tokens for entry in entries if entry.output_tokens is not None]
        spans = [(e.sent, e.last_token) for e in entries if e.sent is not None and e.last_token is not None]
        if not known or not spans or len({s.name for s in sheet.spans}) < len(sheet.spans):
            continue
        seconds = max(last for _, last in spans) - min(sent for sent, _ in spans)
        rate = number(sum(known) / seconds) if seconds > 0 else "-"
        rows.append((name, f"{len(entries):,}", f"{sum(known):,}", number(seconds), rate))
    heads = ("phase", "requests", "tokens", "s", "tok/s, whole")
    return (Table(heads, tuple(rows)),) if rows else ()
