"""A comparison as table, Markdown and JSON document."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from penny_bench.compare.comparison import Comparison
from penny_bench.compare.restart import Restart
from penny_bench.compare.row import ComparisonRow
from penny_bench.compare.verdict import EXIT, Verdict
from penny_bench.compare.words import notes, sentence, several_workloads
from penny_bench.evidence import redact

SCHEMA = "penny-bench/compare/1"

COLOURS: dict[Verdict, str] = {"better": "green", "worse": "red", "undecided": "yellow"}


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print a table for each workload, the verdict and what a reader must know."""
    several = several_workloads(comparison)
    if several:
        console.print(escape(_title(comparison)), style="italic")
    for workload in dict.fromkeys(row.place.workload for row in comparison.rows):
        table = Table(
            title=escape(workload if several else _title(comparison)),
            title_justify="left",
            box=SIMPLE_HEAD,
            padding=0,
            show_edge=False,
            pad_edge=False,
        )
        for head in _heads(comparison):
            words = head in ("phase", "metric", "verdict")
            table.add_column(
                head, justify="left" if words else "right", no_wrap=head != "metric", overflow="fold"
            )
        for row in comparison.rows:
            if row.place.workload == workload:
                table.add_row(*map(escape, _cells(row, comparison)), style=_colour(row))
        console.print(table)
    console.print(escape(sentence(comparison)), style=f"bold {COLOURS.get(comparison.verdict, '')}".strip())
    console.print(escape(method(comparison)), style="dim")
    for line in notes(comparison):
        console.print(escape(line), style="yellow")


def markdown(comparison: Comparison) -> str:
    """The same as Markdown, to paste into a pull request."""
    several = several_workloads(comparison)
    heads = [*(["workload"] if several else []), *_heads(comparison)]
    lines = [f"**{_title(comparison)}**", "", f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for row in comparison.rows:
        cells = [*([row.place.workload] if several else []), *_cells(row, comparison)]
        lines.append(f"| {' | '.join(cells)} |")
    lines += ["", f"**{sentence(comparison)}**", "", method(comparison)]
    if said := notes(comparison):
        lines += ["", *(f"- {line}" for line in said)]
    return "\n".join(lines) + "\n"


def comparison_document(comparison: Comparison, command: str, version: str) -> dict[str, Any]:
    """The JSON document: files with their digests, settings, every value, the verdict and its exit status.

    Absolute paths are cut to their last part.
    """
    settings = asdict(comparison.settings)
    settings["floor"] = {str(c): time for c, time in (comparison.settings.floor or {}).items()} or None
    return {
        "schema": SCHEMA,
        "command": command,
        "penny_bench": version,
        "a": [_restart(restart) for restart in comparison.a],
        "b": [_restart(restart) for restart in comparison.b],
        "settings": settings,
        "rows": [_row(row) for row in comparison.rows],
        "verdict": comparison.verdict,
        "exit_status": EXIT[comparison.verdict],
        "sentence": sentence(comparison),
        "notes": [redact.text(line) for line in notes(comparison)],
    }


def method(comparison: Comparison) -> str:
    """How the numbers were made."""
    settings = comparison.settings
    pairs = "pairs, Student's t of their log ratios" if settings.paired else "Welch's t of their logs"
    test = "sign flips" if settings.paired else "relabelling"
    floor = "; floor: share reached of the stated least time, A and B" if _floors(comparison) else ""
    tested = sum(row.p is not None for row in comparison.rows)
    return (
        f"Unit: restarts ({len(comparison.a)} of A, {len(comparison.b)} of B). A, B: geometric means of their values; "
        f"B-A: change in % of A, and its {100 * (1 - settings.alpha):g} % interval in each row alone: {pairs}; "
        f"p: after Holm's correction over {tested} row{'' if tested == 1 else 's'}; perm: p-value by {test}, "
        f"uncorrected, as a check{floor}."
    )


def _heads(comparison: Comparison) -> list[str]:
    heads = ["phase", "metric", "A", "B", "B-A %", "interval", "p", "perm"]
    return [*heads, *(["floor %"] if _floors(comparison) else []), "verdict"]


def _cells(row: ComparisonRow, comparison: Comparison) -> list[str]:
    interval = "-"
    if row.ratio and row.ratio.spread:
        interval = f"{100 * (row.ratio.low - 1):+.1f}..{100 * (row.ratio.high - 1):+.1f}"
    cells = [
        row.place.phase,
        f"{row.metric.label}, {row.metric.unit}" if row.metric.unit else row.metric.label,
        f"{row.mean_a:.4g}",
        f"{row.mean_b:.4g}",
        "-" if row.change is None else f"{100 * row.change:+.1f}",
        interval,
        "-" if row.p is None else _p(row.p),
        "-" if row.permutation is None else _p(row.permutation.p),
    ]
    if _floors(comparison):
        shares = (row.floor_a, row.floor_b)
        cells.append("-" if None in shares else " ".join(f"{100 * (s or 0):.0f}" for s in shares))
    return [*cells, row.verdict or "-"]


def _colour(row: ComparisonRow) -> str:
    return "dim" if row.verdict is None else COLOURS.get(row.verdict, "")


def _floors(comparison: Comparison) -> bool:
    return any(row.floor_a is not None or row.floor_b is not None for row in comparison.rows)


def _p(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else "<.001"


def _title(comparison: Comparison) -> str:
    documents = [d for restart in (*comparison.a, *comparison.b) for d in restart.documents]
    models = " and ".join(dict.fromkeys(d.model for d in documents))
    return f"B against A, {models}, {', '.join(dict.fromkeys(row.place.workload for row in comparison.rows))}"


def _row(row: ComparisonRow) -> dict[str, Any]:
    fields = asdict(row)
    del fields["place"], fields["metric"]
    return {**row.place._asdict(), **{k: v for k, v in asdict(row.metric).items() if k != "key"}, **fields}


def _restart(restart: Restart) -> dict[str, Any]:
    return {
        "restart": redact.text(restart.name),
        "started": restart.started.isoformat(),
        "files": [
            {"file": redact.text(d.name), "sha256": d.digest, "workload": d.workload}
            for d in restart.documents
        ],
    }
