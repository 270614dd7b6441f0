"""How latencies are distributed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from penny_bench.load import Distribution
from penny_bench.report.entry import Entry, Floats
from penny_bench.report.plot import COLOURS, axis, colour, ecdf, edges, histogram, rounded, said, wide
from penny_bench.report.section import Choice, Figure, Section, Table
from penny_bench.report.sheet import Sheet
from penny_bench.report.units import ms


@dataclass(frozen=True)
class Kind:
    """A latency: its key, its name and what it is."""

    key: str
    name: str
    meaning: str


KINDS = (
    Kind("ttft", "TTFT", "to the first token of any kind"),
    Kind("ttft_content", "TTFT, content", "to the first token that is not reasoning"),
    Kind("tpot", "TPOT", "per token after the first event, of a request"),
    Kind("itl", "ITL", "each token's share of the pause before its event"),
    Kind("stalls", "pause between events", "whatever number of tokens an event brought"),
    Kind("e2e", "E2E", "to the last token"),
)
RANKS = ("mean", "p50", "p90", "p95", "p99", "maximum")
ALL = "all"


def latency(sheet: Sheet) -> Section:
    """Table of percentiles, histogram and distribution function of each latency."""
    key, title = "latency", "Latency distributions"
    phases = [(name, sheet.of_phase(name)) for name in sheet.phases]
    if len(phases) > COLOURS:
        phases = [(ALL, list(sheet.good))]
    rows: list[tuple[str, ...]] = []
    choices: list[Choice] = []
    for kind in KINDS:
        pools = [(name, values) for name, entries in phases if (values := pool(entries, kind.key)).size]
        for name, _ in phases:
            raw = next((values for found, values in pools if found == name), None)
            if found := sheet.stated(name, kind.key) or (None if raw is None else Distribution.of(raw)):
                rows.append((kind.name, name, f"{found.n:,}", *(ms(getattr(found, rank)) for rank in RANKS)))
        if pools:
            choices.append(Choice(f"{kind.name}: {kind.meaning}", _traces(pools)))
    if not rows:
        return Section(key, title, absent="No request succeeded, or no latency of one is known.")
    lines = ["Milliseconds. Failed requests are in none of these; percentiles are linear between ranks."]
    if len(sheet.phases) > COLOURS:
        lines.append(f"The {len(sheet.phases)} phases are drawn as one.")
    if not any(choice.label.startswith("ITL:") for choice in choices):
        lines.append(
            "There is no ITL where the server does not say how many tokens an event brought; the pause between "
            "events is not the same."
        )
    heads = ("latency", "phase", "n", "mean", "p50", "p90", "p95", "p99", "max")
    table = Table(heads, tuple(rows), left=frozenset({1}))
    figure = Figure("Distribution function above, histogram below.", [], _LAYOUT, tuple(choices))
    return Section(key, title, lines=tuple(lines), figures=(figure,) if choices else (), tables=(table,))


def pool(entries: list[Entry], key: str) -> Floats:
    """All values of one latency, s."""
    if key == "itl":
        parts = [found for entry in entries if (found := entry.itl) is not None]
        return np.concatenate(parts) if parts else np.array([], dtype=float)
    if key == "stalls":
        return np.concatenate([np.diff(entry.times) for entry in entries] or [np.array([], dtype=float)])
    return np.array(
        [value for entry in entries if (value := entry.latency.get(key)) is not None], dtype=float
    )


_LAYOUT: dict[str, Any] = {
    "xaxis": axis("ms", anchor="y2"),
    "yaxis": axis("share of values", domain=[0.52, 1], range=[0, 1.02]),
    "yaxis2": axis("values in bin", domain=[0, 0.42]),
    "height": 480,
    "hovermode": "x unified",
}


def _traces(pools: list[tuple[str, Floats]]) -> list[dict[str, Any]]:
    together = 1000 * np.concatenate([values for _, values in pools])
    bounds = edges(together)
    traces: list[dict[str, Any]] = []
    for i, (name, values) in enumerate(pools):
        x, share = ecdf(1000 * values)
        line: dict[str, Any] = {
            "type": "scatter",
            "mode": "lines",
            "name": said(name),
            "legendgroup": said(name),
            "showlegend": len(pools) > 1,
        }
        traces.append(
            {**line, "x": x, "y": share, "line": {"color": colour(i), "shape": "hv", "width": 2}}
            | {"hovertemplate": "%{y:.1%}"}
        )
        x, counts = histogram(1000 * values, bounds)
        traces.append(
            {**line, "x": x, "y": counts, "yaxis": "y2", "showlegend": False, "fill": "tozeroy"}
            | {"line": {"color": colour(i), "shape": "hv", "width": 1}, "hoverinfo": "skip"}
        )
    traces[0]["penny"] = {"log": wide(together), "range": rounded([together.min(), together.max()])}
    return traces
