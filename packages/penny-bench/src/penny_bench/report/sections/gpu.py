"""What the GPUs did meanwhile."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from penny_bench.report.plot import axis, colour, rounded, said, sample, shading
from penny_bench.report.section import Figure, Section, Table
from penny_bench.report.sheet import Sheet
from penny_bench.report.units import MISSING, number

POINTS = 1500
FIELDS = (
    ("power", "power", "W"),
    ("graphics_clock", "graphics clock", "MHz"),
    ("memory_clock", "memory clock", "MHz"),
    ("temperature", "temperature", "°C"),
)


def gpu(sheet: Sheet) -> Section:
    """Power and clocks over time, and the energy of an output token."""
    key, title = "gpu", "GPU clocks and power"
    machine = sheet.value.get("machine") or {}
    samples = machine.get("gpu_samples") or []
    if not samples:
        return Section(
            key,
            title,
            absent="No GPU was sampled: the machine that penny-bench ran on has none, or no NVIDIA driver.",
        )
    names = {device["index"]: device["name"] for device in machine.get("gpus") or []}
    indices = sorted({each["gpu"] for each in samples})
    rows: list[tuple[str, ...]] = []
    figures = []
    for index in indices:
        own = [each for each in samples if each["gpu"] == index]
        name = f"GPU {index}, {names.get(index, 'unknown')}"
        figures.append(Figure(f"{name}: power above, clocks below.", _traces(own), _layout(sheet)))
        rows += [(name, f"{label}, {unit}", *_range(own, field)) for field, label, unit in FIELDS]
    lines = ["Of the machine that penny-bench ran on; the server's may be another."]
    if told := _energy(sheet, samples):
        lines.append(told)
    heads = ("GPU", "what", "least", "mean", "most")
    return Section(
        key,
        title,
        lines=tuple(lines),
        figures=tuple(figures),
        tables=(Table(heads, tuple(rows), left=frozenset({1})),),
    )


def joules(samples: Sequence[Mapping[str, Any]], start: float, end: float) -> float | None:
    """Energy of all GPUs between two moments by the trapezoidal rule, J; None where samples do not reach."""
    total = 0.0
    for index in {each["gpu"] for each in samples}:
        told = [
            (each["t"], each["power"])
            for each in samples
            if each["gpu"] == index and each["power"] is not None
        ]
        if len(told) < 2 or told[-1][0] < start or told[0][0] > end:
            return None
        times, watts = np.array(told, dtype=float).T
        inner = times[(times > start) & (times < end)]
        t = np.concatenate([[start], inner, [end]])
        power = np.interp(t, times, watts)
        total += float(np.sum(np.diff(t) * (power[1:] + power[:-1]) / 2))
    return total


def _energy(sheet: Sheet, samples: Sequence[Mapping[str, Any]]) -> str | None:
    tokens = sum(entry.output_tokens or 0 for entry in sheet.good)
    found = joules(samples, 0.0, sheet.seconds) if sheet.seconds else None
    if not found or not tokens:
        return None
    return (
        f"{number(found)} J over the run, {number(found / tokens)} J for each output token, prefill and idle power "
        f"included."
    )


def _range(samples: Sequence[Mapping[str, Any]], field: str) -> tuple[str, str, str]:
    values = [each[field] for each in samples if each.get(field) is not None]
    if not values:
        return MISSING, MISSING, MISSING
    return number(min(values)), number(sum(values) / len(values)), number(max(values))


def _traces(samples: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    kept = [samples[i] for i in sample(len(samples), POINTS)]
    traces = []
    for i, (field, label, unit) in enumerate(FIELDS[:3]):
        told = [each for each in kept if each.get(field) is not None]
        traces.append(
            {
                "type": "scatter",
                "mode": "lines",
                "name": said(f"{label}, {unit}"),
                "x": rounded((each["t"] for each in told), 7),
                "y": [each[field] for each in told],
                "yaxis": "y" if field == "power" else "y2",
                "line": {"color": colour(i), "width": 1.5, "shape": "hv"},
            }
        )
    return [trace for trace in traces if trace["x"]]


def _layout(sheet: Sheet) -> dict[str, Any]:
    return {
        "xaxis": axis("s", anchor="y2"),
        "yaxis": axis("W", domain=[0.52, 1], rangemode="tozero"),
        "yaxis2": axis("MHz", domain=[0, 0.42], rangemode="tozero"),
        "height": 400,
        "hovermode": "x unified",
        **shading(sheet.spans),
    }
