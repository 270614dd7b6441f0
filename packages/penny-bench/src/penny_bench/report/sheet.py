"""One document, laid out for the sections of a report."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from penny_bench.load import Distribution
from penny_bench.report.entry import Entry, entry_of_record, entry_of_request
from penny_bench.report.metrics import Metric, metrics_of
from penny_bench.report.read import DECODE, Document

WHOLE = "run"
"""Name of the one phase of a run without phases."""


@dataclass(frozen=True)
class Span:
    """A stretch of the run.

    Attributes:
        name: of its phase; a phase may have several stretches.
        label: for a person.
        started, ended: s.
        warmup: whether it came before measuring.
    """

    name: str
    label: str
    started: float
    ended: float
    warmup: bool = False


@dataclass(frozen=True)
class Sheet:
    """A document of a run or of decode groups.

    Attributes:
        document: as read.
        spans: stretches in order of time.
        entries: the measured requests.
        metrics: the headline numbers.
        seconds: length of the measured part, s; None where it is not known.
    """

    document: Document
    spans: tuple[Span, ...]
    entries: tuple[Entry, ...]
    metrics: tuple[Metric, ...]
    seconds: float | None

    @property
    def value(self) -> Mapping[str, Any]:
        """The document itself."""
        return self.document.value

    @property
    def phases(self) -> tuple[str, ...]:
        """Names of the phases that have measured requests, in order."""
        return tuple(dict.fromkeys(entry.phase for entry in self.entries))

    @property
    def good(self) -> tuple[Entry, ...]:
        """The requests that did not fail."""
        return tuple(entry for entry in self.entries if not entry.failure)

    def of_phase(self, name: str) -> list[Entry]:
        """The requests of a phase that did not fail."""
        return [entry for entry in self.good if entry.phase == name]

    def stated(self, phase: str, key: str) -> Distribution | None:
        """The distribution `key` of a phase, as the document states it; None where it does not."""
        summary: Mapping[str, Any] = {}
        for told in self.value.get("phases") or ():
            if told["name"] == phase:
                summary = told.get("summary") or {}
        if phase == WHOLE and not summary and self.document.schema != DECODE:
            summary = self.value.get("summary") or {}
        values = summary.get(key)
        return Distribution(**values) if values else None


def sheet(document: Document) -> Sheet:
    """Lay out a document of `penny-bench run`, of `decode`, or an imported one."""
    value = document.value
    if document.schema == DECODE:
        spans, entries = _groups(value)
        return Sheet(document, spans, entries, metrics_of(document), spans[-1].ended if spans else None)
    entries = tuple(entry_of_request(request, request.get("phase") or WHOLE) for request in value["requests"])
    spans = _spans(value.get("phases") or ())
    return Sheet(document, spans, entries, metrics_of(document), value.get("seconds"))


def _spans(phases: Iterable[Mapping[str, Any]]) -> tuple[Span, ...]:
    """The phases that have an end, without warm-ups on a clock of their own, which lie over measured ones."""
    spans = [
        Span(told["name"], told.get("label") or told["name"], told["started"], told["ended"], told["warmup"])
        for told in phases
        if told.get("started") is not None and told.get("ended") is not None
    ]
    measured = [span for span in spans if not span.warmup]

    def apart(span: Span) -> bool:
        return all(span.ended <= other.started or span.started >= other.ended for other in measured)

    return tuple(span for span in spans if not span.warmup or apart(span))


def _groups(value: Mapping[str, Any]) -> tuple[tuple[Span, ...], tuple[Entry, ...]]:
    """The measured groups one behind the other; each has a clock of its own."""
    spans: list[Span] = []
    entries: list[Entry] = []
    start = 0.0
    for group in value["groups"]:
        if group["warmup"]:
            continue
        name = f"C{group['concurrency']}"
        run = 1 + sum(span.name == name for span in spans)
        spans.append(Span(name, f"{name}, run {run}", start, start + group["seconds"]))
        entries += [
            entry_of_record(record, name, len(entries) + i, start)
            for i, record in enumerate(group["records"])
        ]
        start += group["seconds"]
    return tuple(spans), tuple(entries)
