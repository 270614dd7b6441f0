"""The headline numbers of a document, whatever form it has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from penny_bench.report.read import DECODE, Document
from penny_bench.report.units import number, time


@dataclass(frozen=True)
class Metric:
    """One headline number.

    Attributes:
        phase: name of the phase it belongs to; None for the whole run.
        key: what it is, for a program; with `phase` it names the number within a document.
        label: what it is, for a person.
        value: the number.
        unit: `tok/s`, `s`, and so on.
        better: which direction is; None where neither is.
        n: how many values it was made of.
        floor: best value that the hardware allows; None where none was stated.
        share: how much of the floor was reached.
    """

    phase: str | None
    key: str
    label: str
    value: float
    unit: str
    better: str | None
    n: int | None
    floor: float | None = None
    share: float | None = None

    @property
    def text(self) -> str:
        """The value with its unit."""
        return time(self.value) if self.unit == "s" else f"{number(self.value)} {self.unit}".strip()


_RATES = (
    ("output_rate", "output", "tok/s"),
    ("request_rate", "requests", "1/s"),
    ("goodput", "goodput", "1/s"),
)
_TIMES = (("ttft", "TTFT"), ("tpot", "TPOT"), ("itl", "ITL"), ("e2e", "E2E"))
_ROWS = (
    ("aggregate", "decode, all", "tok/s", "higher"),
    ("stream", "decode, each", "tok/s", "higher"),
    ("whole", "whole", "tok/s", "higher"),
    ("ttft", "TTFT", "s", "lower"),
)


def metrics_of(document: Document) -> tuple[Metric, ...]:
    """Those that a run names; else those that follow from its summary. None of a comparison."""
    value = document.value
    if document.schema == DECODE:
        return tuple(_of_rows(value.get("summary", [])))
    if value.get("metrics"):
        return tuple(_named(entry) for entry in value["metrics"])
    return tuple(_of_summary(value.get("summary") or {}))


def _named(entry: dict[str, Any]) -> Metric:
    optional = {key: entry.get(key) for key in ("phase", "better", "n", "floor", "share")}
    return Metric(
        key=entry["key"],
        label=entry.get("label") or entry["key"],
        value=entry["value"],
        unit=entry.get("unit") or "",
        **optional,
    )


def _of_summary(summary: dict[str, Any]) -> list[Metric]:
    """The same names as a run gives them, so that documents of both kinds can be set side by side."""
    made = [
        Metric("run", key, label, summary[key], unit, "higher", summary.get("succeeded"))
        for key, label, unit in _RATES
        if summary.get(key) is not None
    ]
    for key, label in _TIMES:
        if values := summary.get(key):
            made += [
                Metric("run", f"{key}_{rank}", f"{label} {rank}", values[rank], "s", "lower", values.get("n"))
                for rank in ("p50", "p99")
                if values.get(rank) is not None
            ]
    return made


def _of_rows(rows: list[dict[str, Any]]) -> list[Metric]:
    return [
        Metric(f"C{row['concurrency']}", key, label, values["median"], unit, better, values["n"])
        for row in rows
        for key, label, unit, better in _ROWS
        if (values := row.get(key))
    ]
