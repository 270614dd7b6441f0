"""How the numbers were made."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from penny_bench.report.section import Section, Table
from penny_bench.report.sheet import Sheet
from penny_bench.report.units import number, time

LONG = 300


def setup(sheet: Sheet) -> Section:
    """Command, versions, machine, server and plan."""
    value = sheet.value
    rows: list[tuple[str, ...]] = []
    for heading, told in (
        ("workload", value.get("workload")),
        ("imported from", value.get("imported")),
        ("versions", value.get("versions")),
        ("machine", _machine(value.get("machine") or {})),
        ("client", value.get("client")),
        ("server", value.get("server")),
        ("plan", value.get("plan")),
    ):
        rows += [(heading, name, text) for name, text in _flat(told or {})]
    rows = [
        ("document", "file", sheet.document.name),
        ("document", "sha256", sheet.document.sha256),
        ("document", "started", str(value.get("started") or "unknown")),
        *rows,
    ]
    table = Table(("part", "what", "value"), tuple(rows), left=frozenset({1, 2}))
    command = value.get("command")
    lines = (
        ("The command that made it:",) if command else ("The command that made it is not in the document.",)
    )
    return Section("setup", "Environment and command", lines=lines, code=command or "", tables=(table,))


def _machine(machine: Mapping[str, Any]) -> dict[str, Any]:
    told = {key: entry for key, entry in machine.items() if key not in ("gpu_samples", "memory_bytes")}
    if machine.get("memory_bytes"):
        told["memory"] = f"{machine['memory_bytes'] / 2**30:.1f} GiB"
    if machine.get("gpus"):
        told["gpus"] = "; ".join(f"{device['name']}, driver {device['driver']}" for device in machine["gpus"])
    return told


def _flat(value: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    """Names with dots and values as text; what is null is left out."""
    for name, entry in value.items():
        if isinstance(entry, Mapping):
            if "p50" in entry and "p99" in entry:
                yield prefix + name, f"p50 {time(entry['p50'])}, p99 {time(entry['p99'])}"
            else:
                yield from _flat(entry, f"{prefix}{name}.")
        elif entry not in (None, "", []):
            text = number(entry) if isinstance(entry, float) else str(entry)
            yield prefix + name, text if len(text) <= LONG else f"{text[:LONG]} ..."
