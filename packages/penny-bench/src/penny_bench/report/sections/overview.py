"""Several results side by side."""

from __future__ import annotations

from collections.abc import Sequence

from penny_bench.report.metrics import Metric, metrics_of
from penny_bench.report.read import COMPARE, Document
from penny_bench.report.section import Report, Section, Table
from penny_bench.report.units import MISSING

WIDTH = 8
"""Results in one table."""


def overview(documents: Sequence[Document]) -> Report | None:
    """Headline numbers of all results in one table; None where there are not two that have any."""
    known = [(document, metrics_of(document)) for document in documents if document.schema != COMPARE]
    known = [(document, metrics) for document, metrics in known if metrics]
    if len(known) < 2:
        return None
    tables = tuple(_table(known[i : i + WIDTH]) for i in range(0, len(known), WIDTH))
    lines = (
        "A number that a result does not have is a dash. Whether two numbers differ by more than chance, this table "
        "does not tell; penny-bench compare does, over restarts.",
    )
    return Report(
        "Side by side",
        f"{len(known)} results",
        (Section("overview", "Headline numbers side by side", lines=lines, tables=tables),),
    )


def _table(known: Sequence[tuple[Document, Sequence[Metric]]]) -> Table:
    cells: dict[tuple[str, str], dict[int, str]] = {}
    labels: dict[tuple[str, str], str] = {}
    for i, (_, metrics) in enumerate(known):
        for metric in metrics:
            place = (metric.phase or "all", metric.key)
            cells.setdefault(place, {})[i] = metric.text
            labels.setdefault(place, metric.label)
    phases = list(dict.fromkeys(phase for phase, _ in cells))
    rows = tuple(
        (place[0], labels[place], *(found.get(i, MISSING) for i in range(len(known))))
        for place, found in sorted(cells.items(), key=lambda item: phases.index(item[0][0]))
    )
    return Table(("phase", "metric", *(document.name for document, _ in known)), rows, left=frozenset({1}))
