"""The numbers that come first, and whatever weakens them."""

from __future__ import annotations

from collections.abc import Sequence

from penny_bench.report.metrics import Metric
from penny_bench.report.plot import axis, colour, rounded, said
from penny_bench.report.section import Figure, Section, Table, Tile
from penny_bench.report.sheet import Sheet
from penny_bench.report.units import MISSING, count, percent, time

SLOW = 0.05
"""Lag of the client's event loop, 99th percentile, from which its times are in doubt, s."""
TILES = 4


def headline(sheet: Sheet) -> Section:
    """Headline metrics with their share of a floor."""
    metrics = sheet.metrics
    failed = len(sheet.entries) - len(sheet.good)
    measured = f"{count(len(sheet.entries), 'request')} measured"
    if failed:
        measured += f", {failed:,} of them failed"
    if sheet.seconds is not None:
        measured += f", in {time(sheet.seconds)}"
    alarm = alarms(sheet)
    if not metrics:
        return Section(
            "headline",
            "Headline",
            lines=(f"{measured}.",),
            alarm=alarm,
            absent="No headline number could be had.",
        )
    floors = [metric for metric in metrics if metric.share is not None]
    heads: tuple[str, ...] = ("phase", "metric", "value", "n")
    if floors:
        heads = (*heads, "floor", "share of floor")
    return Section(
        "headline",
        "Headline",
        tiles=tuple(_tile(metric) for metric in _first(metrics)),
        lines=(f"{measured}.",),
        figures=(_floors(floors),) if floors else (),
        tables=(Table(heads, tuple(_row(metric, bool(floors)) for metric in metrics), left=frozenset({1})),),
        alarm=alarm,
    )


def alarms(sheet: Sheet) -> tuple[str, ...]:
    """Sentences about what makes the numbers of a document less than they seem."""
    value, lines = sheet.value, []
    if value.get("status") == "partial":
        lines.append("The run was interrupted; this is what was measured until then.")
    if value.get("earlier"):
        lines.append(f"The run was interrupted and resumed: it has {1 + len(value['earlier'])} parts.")
    if value.get("status") == "imported":
        told = value.get("imported") or {}
        lines.append(
            f"Imported from a result of {told.get('tool') or 'another tool'}; penny-bench did not measure this. "
            f"{told.get('note') or ''}".strip()
        )
    cache = value.get("cache") or {}
    if cache.get("verdict") == "contaminated":
        lines.append(
            f"A prefix cache took part: {count(cache['above'], 'request')} had more than {cache['limit']} cached "
            f"prompt tokens, up to {cache['most']:,}. Prefill times are not those of a cold server."
        )
    elif cache.get("verdict") == "unknown":
        lines.append("The server does not report cached tokens: whether a prefix cache took part is unknown.")
    lag = (value.get("client") or {}).get("loop_lag") or {}
    if (lag.get("p99") or 0) > SLOW:
        lines.append(
            f"The client was too busy: its event loop was late by {time(lag['p99'])} (p99). Events closer together may "
            f"count as one, and through TLS or a proxy times may be off by as much."
        )
    if (value.get("server") or {}).get("extensions") is False:
        lines.append("The server refused ignore_eos and running usage counts: answers may end early.")
    return (*lines, *(value.get("notes") or ()))


def _first(metrics: Sequence[Metric]) -> list[Metric]:
    """The first number of each phase, then further ones in order."""
    heads = {metric.phase: metric for metric in reversed(metrics)}
    chosen = [metric for metric in metrics if heads[metric.phase] is metric][:TILES]
    rest = [metric for metric in metrics if metric not in chosen]
    return [*chosen, *rest[: TILES - len(chosen)]]


def _tile(metric: Metric) -> Tile:
    remark = metric.phase or ""
    if metric.share is not None:
        remark = f"{remark}, {percent(metric.share)} of floor".removeprefix(", ")
    return Tile(metric.label, metric.text, remark)


def _row(metric: Metric, floors: bool) -> tuple[str, ...]:
    cells = (
        metric.phase or "all",
        metric.label,
        metric.text,
        MISSING if metric.n is None else f"{metric.n:,}",
    )
    if not floors:
        return cells
    floor = Metric(None, "", "", metric.floor, metric.unit, None, None).text if metric.floor else MISSING
    return (*cells, floor, percent(metric.share))


def _floors(metrics: list[Metric]) -> Figure:
    names = [said(" ".join(filter(None, (metric.phase, metric.label)))) for metric in metrics]
    shares = rounded(100 * (metric.share or 0) for metric in metrics)
    bars = {
        "type": "bar",
        "orientation": "h",
        "y": names,
        "x": shares,
        "marker": {"color": colour(0)},
        "text": [f"{share:.0f} %" for share in shares],
        "textposition": "auto",
        "hovertemplate": "%{y}: %{x:.1f} %<extra></extra>",
    }
    layout = {
        "xaxis": axis("share of the floor, %", range=[0, max(100.0, *shares)]),
        "yaxis": {"autorange": "reversed", "automargin": True},
        "height": 120 + 26 * len(names),
    }
    return Figure("How much of the stated floor was reached.", [bars], layout)
