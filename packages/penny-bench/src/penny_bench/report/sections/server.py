"""What the server counted meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penny_bench.report.plot import axis, colour, rounded, sample, shading
from penny_bench.report.section import Choice, Figure, Section, Table
from penny_bench.report.sheet import Sheet
from penny_bench.report.units import number

POINTS = 1500


@dataclass(frozen=True)
class Gauge:
    """Something that a server tells at a moment: its key, its name with unit, and what a value is multiplied by."""

    key: str
    label: str
    factor: float = 1.0


GAUGES = (
    Gauge("running", "requests running"),
    Gauge("queued", "requests queued"),
    Gauge("token_usage", "KV pool in use, %", 100.0),
    Gauge("mamba_usage", "state pool in use, %", 100.0),
    Gauge("host_tokens", "tokens in the host tier"),
    Gauge("gen_throughput", "generation, tok/s"),
    Gauge("accept_length", "acceptance length"),
    Gauge("cache_hit_rate", "prompt tokens from cache, %", 100.0),
)
TOTALS = (
    ("prompt_tokens", "prompt tokens"),
    ("output_tokens", "output tokens"),
    ("cached_device", "cached, device"),
    ("cached_host", "cached, host"),
    ("cached_storage", "cached, storage"),
    ("evicted_tokens", "tokens evicted"),
    ("retracted", "requests retracted"),
)
"""Counters that only grow; what they grew by is told."""


def server(sheet: Sheet) -> Section:
    """The server's gauges over time, and what its counters grew by."""
    key, title = "server", "The server's own counters"
    samples = (sheet.value.get("server") or {}).get("samples") or []
    told = [gauge for gauge in GAUGES if any(each.get(gauge.key) is not None for each in samples)]
    grown = [(label, growth) for name, label in TOTALS if (growth := _growth(samples, name)) is not None]
    if not told and not grown:
        return Section(
            key,
            title,
            absent="The server's counters were not read: it shows none, or --enable-metrics is missing.",
        )
    lines = [
        "As the server tells them at its metrics page; rates and usages may be those of an interval before the sample."
    ]
    kept = [samples[i] for i in sample(len(samples), POINTS)]
    choices = tuple(Choice(gauge.label, [_trace(kept, gauge, i)]) for i, gauge in enumerate(told))
    layout = {
        "xaxis": axis("s since the start"),
        "yaxis": axis("", rangemode="tozero"),
        "height": 320,
        **shading(sheet.spans),
    }
    figures = (Figure("A counter of the server over time.", [], layout, choices),) if choices else ()
    tables = []
    if told:
        ranges = tuple((gauge.label, *_range(samples, gauge)) for gauge in told)
        tables.append(Table(("what", "least", "mean", "most"), ranges))
    if grown:
        growths = tuple((label, number(growth)) for label, growth in grown)
        tables.append(
            Table(("counter", "grew by"), growths, caption="Between the first and the last sample.")
        )
    return Section(key, title, lines=tuple(lines), figures=figures, tables=tuple(tables))


def _values(samples: Sequence[Mapping[str, Any]], gauge: Gauge) -> list[tuple[float, float]]:
    return [
        (each["t"], gauge.factor * each[gauge.key]) for each in samples if each.get(gauge.key) is not None
    ]


def _trace(samples: Sequence[Mapping[str, Any]], gauge: Gauge, index: int) -> dict[str, Any]:
    points = _values(samples, gauge)
    return {
        "type": "scatter",
        "mode": "lines+markers",
        "name": gauge.label,
        "x": rounded((t for t, _ in points), 7),
        "y": rounded(value for _, value in points),
        "line": {"color": colour(index), "width": 1.5, "shape": "hv"},
        "marker": {"size": 4, "color": colour(index)},
        "hovertemplate": f"%{{x:.1f}} s: %{{y:.4g}}<extra>{gauge.label}</extra>",
    }


def _range(samples: Sequence[Mapping[str, Any]], gauge: Gauge) -> tuple[str, str, str]:
    values = [value for _, value in _values(samples, gauge)]
    return number(min(values)), number(sum(values) / len(values)), number(max(values))


def _growth(samples: Sequence[Mapping[str, Any]], name: str) -> float | None:
    """Last minus first; None with fewer than two samples, or where the server was started anew between."""
    values = [each[name] for each in samples if each.get(name) is not None]
    if len(values) < 2 or values[-1] < values[0]:
        return None
    return float(values[-1] - values[0])
