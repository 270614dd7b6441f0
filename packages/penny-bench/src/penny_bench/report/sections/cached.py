"""Where prompt tokens came from."""

from __future__ import annotations

from typing import Any

from penny_bench.report.entry import Entry
from penny_bench.report.plot import axis, colour, said
from penny_bench.report.section import Figure, Section, Table
from penny_bench.report.sheet import Sheet
from penny_bench.report.units import percent

SINGLE = 60
"""Requests up to which each has a bar of its own."""
TIERS = ("device", "host", "storage", "tier not told", "computed")


def cached(sheet: Sheet) -> Section:
    """Prompt tokens by tier of the prefix cache, by request or by phase."""
    key, title = "cache", "Prompt tokens from the prefix cache"
    known = [entry for entry in sheet.good if entry.prompt_tokens is not None and _told(entry)]
    if not known:
        return Section(
            key,
            title,
            absent="The server does not report cached tokens (SGLang needs --enable-cache-report), so where prompt "
            "tokens came from is unknown.",
        )
    by_phase = [(name, [e for e in known if e.phase == name]) for name in sheet.phases]
    rows = [_row(name, entries) for name, entries in by_phase if entries]
    lines = ["As the server counted them; what no cache held was computed."]
    if len(known) < len(sheet.good):
        lines.append(f"{len(sheet.good) - len(known):,} requests did not say.")
    if not any(entry.cached for entry in known) and any(entry.cached_tokens for entry in known):
        lines.append("The server did not say from which tier cached tokens came.")
    heads = ("phase", "requests", "prompt tokens", *TIERS, "cached")
    section = Section(key, title, lines=tuple(lines), tables=(Table(heads, tuple(rows)),))
    if not any(sum(split(entry).values()) - split(entry)["computed"] for entry in known):
        return Section(
            key, title, lines=(*lines, "No prompt token came from a cache."), tables=section.tables
        )
    bars = [(f"{e.number}", [e]) for e in known] if len(known) <= SINGLE else by_phase
    label = "request" if len(known) <= SINGLE else "phase"
    return Section(key, title, lines=tuple(lines), tables=section.tables, figures=(_figure(bars, label),))


def split(entry: Entry) -> dict[str, int]:
    """Prompt tokens of a request by tier; tiers that the server left out are 0."""
    tiers = {tier: int((entry.cached or {}).get(tier) or 0) for tier in TIERS[:3]}
    rest = max(0, (entry.cached_tokens or 0) - sum(tiers.values()))
    computed = max(0, (entry.prompt_tokens or 0) - sum(tiers.values()) - rest)
    return {**tiers, "tier not told": rest, "computed": computed}


def _told(entry: Entry) -> bool:
    return entry.cached_tokens is not None or bool(entry.cached)


def _sums(entries: list[Entry]) -> dict[str, int]:
    splits = [split(entry) for entry in entries]
    return {tier: sum(each[tier] for each in splits) for tier in TIERS}


def _row(name: str, entries: list[Entry]) -> tuple[str, ...]:
    sums, total = _sums(entries), sum(entry.prompt_tokens or 0 for entry in entries)
    share = (total - sums["computed"]) / total if total else None
    return (
        name,
        f"{len(entries):,}",
        f"{total:,}",
        *(f"{sums[tier]:,}" for tier in TIERS),
        percent(share),
    )


def _figure(bars: list[tuple[str, list[Entry]]], label: str) -> Figure:
    sums = [_sums(entries) for _, entries in bars]
    traces: list[dict[str, Any]] = [
        {
            "type": "bar",
            "name": tier,
            "x": [said(name) for name, _ in bars],
            "y": [each[tier] for each in sums],
            "marker": {"color": "var(--faint)" if tier == "computed" else colour(i)},
            "hovertemplate": "%{y:,}",
        }
        for i, tier in enumerate(TIERS)
        if any(each[tier] for each in sums)
    ]
    layout = {
        "barmode": "stack",
        "xaxis": axis(label, type="category"),
        "yaxis": axis("prompt tokens"),
        "height": 340,
        "hovermode": "x unified",
    }
    return Figure("Prompt tokens by where they came from.", traces, layout)
