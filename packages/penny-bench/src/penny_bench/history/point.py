"""What a history knows of one document."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from penny_bench.errors import BenchError
from penny_bench.report import Document, Metric, metrics_of
from penny_bench.report.read import DECODE


@dataclass(frozen=True)
class Setting:
    """What must be alike for two numbers to be of one series.

    Attributes:
        workload: name and version of the workload, or kind of the load.
        digest: of everything that the workload or the plan sets but its seed.
        model: as the server called it.
        gpu: GPUs of the machine; `no GPU` where none was seen.
        tool: who measured: penny-bench, or the tool whose result was imported.
    """

    workload: str
    digest: str
    model: str
    gpu: str
    tool: str

    @property
    def title(self) -> str:
        """One line for a heading."""
        tool = "" if self.tool == "penny-bench" else f", measured by {self.tool}"
        return f"{self.workload} ({self.digest}), {self.model}, {self.gpu}{tool}"


@dataclass(frozen=True)
class Entry:
    """One document of a history.

    Attributes:
        name: its file.
        sha256: of its bytes.
        started: when its run began.
        setting: which series it belongs to.
        metrics: its headline numbers.
        server, penny_bench, driver: versions; `-` where one is not told.
        command: that made it.
        doubts: why it is shown but neither a best nor a predecessor: partial, contaminated, failed requests.
    """

    name: str
    sha256: str
    started: datetime
    setting: Setting
    metrics: tuple[Metric, ...]
    server: str
    penny_bench: str
    driver: str
    command: str
    doubts: tuple[str, ...]


def entry_of(document: Document) -> Entry:
    """From a document of a run, of decode, or an imported one.

    Raises:
        BenchError: it does not tell when it was made.
    """
    value = document.value
    return Entry(
        name=document.name,
        sha256=document.sha256,
        started=_started(document),
        setting=_setting(document),
        metrics=metrics_of(document),
        server=_server_version(value),
        penny_bench=_own_version(value),
        driver=next((gpu["driver"] for gpu in _gpus(value)), "-"),
        command=str(value.get("command") or ""),
        doubts=tuple(_doubts(document)),
    )


def _started(document: Document) -> datetime:
    text = document.value.get("started")
    try:
        found = datetime.fromisoformat(text)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        raise BenchError(
            f"{document.name} has no date: its `started` is {text!r}; expected a time such as 2026-01-31T12:00:00Z."
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=UTC)


def _setting(document: Document) -> Setting:
    value = document.value
    workload = value.get("workload")
    if workload:
        name, digest = f"{workload['name']} {workload['version']}", str(workload["digest"])
    else:
        plan = {key: entry for key, entry in (value.get("plan") or {}).items() if key != "seed"}
        load = plan.get("load") or {}
        name = "decode" if document.schema == DECODE else " ".join(["run", load.get("kind") or ""]).strip()
        digest = hashlib.sha256(json.dumps(plan, sort_keys=True).encode()).hexdigest()
    tool = (value.get("imported") or {}).get("tool") or "penny-bench"
    gpus = [str(gpu["name"]) for gpu in _gpus(value)]
    names = [f"{gpus.count(gpu)} x {gpu}" if gpus.count(gpu) > 1 else gpu for gpu in dict.fromkeys(gpus)]
    model = (value.get("server") or {}).get("model") or "unknown model"
    return Setting(name, digest[:8], str(model), " and ".join(names) or "no GPU", str(tool))


def _gpus(value: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    return list((value.get("machine") or {}).get("gpus") or ())


def _server_version(value: Mapping[str, Any]) -> str:
    """The first `version` in what the server told of itself."""
    return next(_versions((value.get("server") or {}).get("info") or {}), "-")


def _versions(value: Mapping[str, Any]) -> Iterator[str]:
    if isinstance(value.get("version"), str):
        yield value["version"]
    for entry in value.values():
        if isinstance(entry, Mapping):
            yield from _versions(entry)


def _own_version(value: Mapping[str, Any]) -> str:
    for part in ("versions", "client"):
        if told := (value.get(part) or {}).get("penny_bench"):
            return str(told)
    return "-"


def _doubts(document: Document) -> Iterator[str]:
    value = document.value
    if value.get("status") == "partial":
        yield "partial"
    if (value.get("cache") or {}).get("verdict") == "contaminated":
        yield "prefix cache"
    failed = failures(document)
    if failed:
        yield f"{failed} failed"


def failures(document: Document) -> int:
    """Requests that failed, as the summary counts them."""
    summary = document.value.get("summary") or {}
    if document.schema == DECODE:
        return sum(sum(row.get("failures", {}).values()) for row in summary)
    return sum((summary.get("errors") or {}).values())
