"""Decode rate against the length of the context."""

from __future__ import annotations

from typing import Any

import numpy as np

from penny_bench.report.entry import Floats
from penny_bench.report.plot import axis, cloud, sample
from penny_bench.report.section import Figure, Section, Table
from penny_bench.report.sheet import Sheet
from penny_bench.report.units import number

POINTS = 2000


def context(sheet: Sheet) -> Section:
    """The rate of each request against its prompt tokens, and its TTFT."""
    key, title = "context", "Rate against context"
    known = [entry for entry in sheet.good if entry.prompt_tokens and entry.rate]
    if not known:
        return Section(
            key,
            title,
            absent="No request has both a decode rate and a prompt length that the server counted.",
        )
    lengths = np.array([entry.prompt_tokens for entry in known], dtype=float)
    if lengths.max() <= 1.25 * lengths.min():
        return Section(
            key,
            title,
            absent=f"All prompts had about the same length ({lengths.min():,.0f} to {lengths.max():,.0f} tokens), so "
            f"there is nothing to set the rate against.",
        )
    lines = ["Tokens per second of each request after its first event, against its prompt tokens."]
    kept = [known[i] for i in sample(len(known), POINTS)]
    if len(kept) < len(known):
        lines.append(f"{len(kept):,} of {len(known):,} requests are drawn, evenly chosen.")
    traces = cloud(
        kept,
        x=lambda entry: entry.prompt_tokens,
        y=lambda entry: entry.rate or 0,
        text=lambda entry: f"No. {entry.number}",
        hover="%{text}: %{y:.1f} tok/s at %{x:,} tokens",
    )
    layout = {
        "xaxis": _axis(float(lengths.min()), float(lengths.max())),
        "yaxis": axis("tok/s, each", rangemode="tozero"),
        "height": 380,
    }
    figure = Figure("Decode rate of each request against the length of its prompt.", traces, layout)
    rates = np.array([entry.rate for entry in known], dtype=float)
    ttft = np.array([entry.latency["ttft"] or np.nan for entry in known], dtype=float)
    return Section(
        key,
        title,
        lines=tuple(lines),
        figures=(figure,),
        tables=(Table(_HEADS, tuple(_rows(lengths, rates, ttft))),),
    )


def _axis(low: float, high: float) -> dict[str, Any]:
    if high <= 20 * low:
        return axis("prompt tokens", rangemode="tozero")
    powers = range(int(np.floor(np.log2(low))), int(np.ceil(np.log2(high))) + 1)
    step = 1 + len(powers) // 9
    ticks = [2**power for power in powers][::step]
    labels = [f"{tick // 1024}K" if tick >= 1024 else f"{tick}" for tick in ticks]
    return axis("prompt tokens, K = 1,024", type="log", tickvals=ticks, ticktext=labels)


_HEADS = ("prompt tokens", "requests", "tok/s, each, median", "TTFT, ms, median")


def _span(lengths: Floats) -> str:
    low, high = lengths.min(), lengths.max()
    return f"{low:,.0f}" if low == high else f"{low:,.0f} to {high:,.0f}"


def _rows(lengths: Floats, rates: Floats, ttft: Floats) -> list[tuple[str, ...]]:
    """One row for each doubling of the length."""
    octave = np.floor(np.log2(lengths)).astype(int)
    rows: list[tuple[str, ...]] = []
    for power in np.unique(octave):
        here = octave == power
        rows.append(
            (
                _span(lengths[here]),
                f"{here.sum():,}",
                number(float(np.median(rates[here]))),
                number(1000 * float(np.nanmedian(ttft[here]))) if np.isfinite(ttft[here]).any() else "-",
            )
        )
    return rows
