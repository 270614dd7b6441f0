"""How many draft tokens were accepted."""

from __future__ import annotations

from typing import Any

from penny_bench.report.plot import axis, cloud, colour, rounded, said, sample
from penny_bench.report.section import Figure, Section, Table
from penny_bench.report.sheet import Sheet
from penny_bench.report.units import number, percent

POINTS = 3000


def acceptance(sheet: Sheet) -> Section:
    """Histogram over verify steps, and the acceptance length of each request."""
    key, title = "acceptance", "Acceptance of draft tokens"
    whole = sheet.value.get("speculation")
    single = [entry for entry in sheet.good if (entry.speculation or {}).get("acceptance_length")]
    if not whole and not single:
        return Section(
            key, title, absent="The server reported no speculation: it has none, or it does not say."
        )
    figures = []
    if whole and whole.get("histogram"):
        figures.append(_steps(whole["histogram"]))
    if single:
        figures.append(_requests(sheet))
    rows = [_row("all", whole)] if whole else []
    for name in sheet.phases:
        told = [entry.speculation for entry in single if entry.phase == name and entry.speculation]
        if told and len(sheet.phases) > 1:
            rows.append(_row(name, _total(told)))
    heads = ("phase", "verify steps", "proposed", "accepted", "share accepted", "acceptance length")
    lines = [
        "Acceptance length is tokens per verify step: the accepted draft tokens and the one of the target."
    ]
    if len(single) > POINTS:
        lines.append(f"{POINTS:,} of {len(single):,} requests are drawn, evenly chosen.")
    return Section(
        key,
        title,
        lines=tuple(lines),
        figures=tuple(figures),
        tables=(Table(heads, tuple(rows)),) if rows else (),
    )


def _total(told: list[Any]) -> dict[str, Any]:
    sums: dict[str, Any] = {}
    for name in ("verify", "accepted", "proposed"):
        known = [each[name] for each in told if each.get(name) is not None]
        sums[name] = sum(known) if len(known) == len(told) else None
    verify, accepted = sums["verify"], sums["accepted"]
    return {**sums, "acceptance_length": 1 + accepted / verify if verify and accepted is not None else None}


def _row(name: str, told: dict[str, Any]) -> tuple[str, ...]:
    proposed, accepted = told.get("proposed"), told.get("accepted")
    share = accepted / proposed if proposed and accepted is not None else None
    return (
        name,
        number(told.get("verify")),
        number(proposed),
        number(accepted),
        percent(share),
        number(told.get("acceptance_length")),
    )


def _steps(counts: list[int]) -> Figure:
    total = sum(counts) or 1
    bars = {
        "type": "bar",
        "x": list(range(len(counts))),
        "y": rounded(100 * n / total for n in counts),
        "customdata": counts,
        "marker": {"color": colour(0)},
        "text": [f"{100 * n / total:.0f} %" for n in counts],
        "textposition": "auto",
        "hovertemplate": "%{x} accepted: %{customdata:,} steps, %{y:.1f} %<extra></extra>",
    }
    layout = {
        "xaxis": axis("draft tokens accepted in a verify step", dtick=1),
        "yaxis": axis("share of verify steps, %"),
        "height": 320,
    }
    return Figure("Verify steps by how many draft tokens they accepted.", [bars], layout)


def _requests(sheet: Sheet) -> Figure:
    drawn = [entry for entry in sheet.good if (entry.speculation or {}).get("acceptance_length")]
    drawn = [drawn[i] for i in sample(len(drawn), POINTS)]
    traces = cloud(
        drawn,
        x=lambda entry: entry.number,
        y=lambda entry: (entry.speculation or {})["acceptance_length"],
        text=lambda entry: said(entry.case or ""),
        hover="No. %{x} %{text}: %{y:.2f}",
    )
    layout = {"xaxis": axis("request"), "yaxis": axis("acceptance length", rangemode="tozero"), "height": 320}
    return Figure("Acceptance length of each request.", traces, layout)
