"""The sections of a report, one file for each question."""

from collections.abc import Sequence

from penny_bench.report.read import COMPARE, Document
from penny_bench.report.section import Report
from penny_bench.report.sections.acceptance import acceptance
from penny_bench.report.sections.cached import cached
from penny_bench.report.sections.comparison import comparison
from penny_bench.report.sections.context import context
from penny_bench.report.sections.gantt import gantt
from penny_bench.report.sections.gpu import gpu
from penny_bench.report.sections.headline import headline
from penny_bench.report.sections.latency import latency
from penny_bench.report.sections.outcome import checks, failures
from penny_bench.report.sections.overview import overview
from penny_bench.report.sections.server import server
from penny_bench.report.sections.setup import setup
from penny_bench.report.sections.tokens import tokens
from penny_bench.report.sections.waterfall import waterfall
from penny_bench.report.sheet import sheet

SECTIONS = (
    headline,
    checks,
    failures,
    latency,
    tokens,
    context,
    acceptance,
    cached,
    waterfall,
    gantt,
    server,
    gpu,
    setup,
)
"""Of a run, in the order in which they are read."""


def report_of(document: Document) -> Report:
    """All sections about a document."""
    if document.schema == COMPARE:
        return Report(document.value["sentence"], document.name, (comparison(document),))
    laid = sheet(document)
    return Report(_title(document), document.name, tuple(section(laid) for section in SECTIONS))


def reports_of(documents: Sequence[Document]) -> list[Report]:
    """A report for each document, and before them all results side by side, where there are several."""
    first = overview(documents)
    return [*([first] if first else []), *(report_of(document) for document in documents)]


def _title(document: Document) -> str:
    value = document.value
    workload = value.get("workload") or {}
    load = (value.get("plan") or {}).get("load") or {}
    what = workload.get("title") or workload.get("name")
    if not what:
        what = " ".join(["decode" if document.schema.endswith("decode/1") else "run", load.get("kind") or ""])
    model = (value.get("server") or {}).get("model") or "unknown model"
    started = str(value.get("started") or "")[:16].replace("T", " ")
    return ", ".join(filter(None, (what.strip(), model, started)))


__all__ = ["SECTIONS", "report_of", "reports_of"]
