"""A comparison as table, Markdown and JSON document."""

from dataclasses import asdict
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from penny_bench.compare.comparison import Comparison, ComparisonRow
from penny_bench.compare.restart import Restart
from penny_bench.compare.verdict import EXIT, Verdict

SCHEMA = "penny-bench/compare/1"

COLOURS: dict[Verdict, str] = {"better": "green", "worse": "red", "undecided": "yellow"}


def print_comparison(comparison: Comparison, console: Console) -> None:
    """Print the table, the verdict and what a reader must know."""
    table = Table(
        title=escape(_title(comparison)),
        title_justify="left",
        box=SIMPLE_HEAD,
        padding=0,
        show_edge=False,
        pad_edge=False,
    )
    for head in _heads(comparison):
        table.add_column(head, justify="left" if head in ("metric", "verdict") else "right", no_wrap=True)
    for row in comparison.rows:
        table.add_row(*_cells(row, comparison), style=COLOURS.get(row.verdict, ""))
    console.print(table)
    console.print(escape(sentence(comparison)), style=f"bold {COLOURS.get(comparison.verdict, '')}".strip())
    console.print(escape(method(comparison)), style="dim")
    for line in notes(comparison):
        console.print(escape(line), style="yellow")


def markdown(comparison: Comparison) -> str:
    """The same as Markdown, to paste into a pull request."""
    heads = _heads(comparison)
    lines = [f"**{_title(comparison)}**", "", f"| {' | '.join(heads)} |", "|" + "---|" * len(heads)]
    for row in comparison.rows:
        lines.append(f"| {' | '.join(_cells(row, comparison))} |")
    lines += ["", f"**{sentence(comparison)}**", "", method(comparison)]
    if said := notes(comparison):
        lines += ["", *(f"- {line}" for line in said)]
    return "\n".join(lines) + "\n"


def comparison_document(comparison: Comparison, command: str, version: str) -> dict[str, Any]:
    """The JSON document: files with their digests, settings, every value, the verdict and its exit status."""
    settings = asdict(comparison.settings)
    settings["floor"] = {str(c): time for c, time in (comparison.settings.floor or {}).items()} or None
    return {
        "schema": SCHEMA,
        "command": command,
        "penny_bench": version,
        "a": [_file(restart) for restart in comparison.a],
        "b": [_file(restart) for restart in comparison.b],
        "settings": settings,
        "rows": [
            {**asdict(row), "metric": row.metric.key, "unit": row.metric.unit} for row in comparison.rows
        ],
        "verdict": comparison.verdict,
        "exit_status": EXIT[comparison.verdict],
        "sentence": sentence(comparison),
        "notes": notes(comparison),
    }


def sentence(comparison: Comparison) -> str:
    """The verdict on all rows in words."""
    margin = f"{100 * comparison.settings.margin:.3g} %"
    word = comparison.verdict
    where = ", ".join(_place(row) for row in comparison.rows if row.verdict == word)
    better = ", ".join(_place(row) for row in comparison.rows if row.verdict == "better")
    also = f" It is better at {better}." if better and word != "better" else ""
    return {
        "better": f"B is better than A at {where}.",
        "equal": f"B equals A within {margin} at {where}.",
        "no worse": f"B is not worse than A by {margin} or more anywhere.{also}",
        "worse": f"B is worse than A at {where}.{also}",
        "undecided": f"Undecided at {where}: no difference shown, and one of {margin} not excluded.{also}",
    }[word]


def method(comparison: Comparison) -> str:
    """How the numbers were made."""
    settings = comparison.settings
    pairs = "pairs, Student's t of their log ratios" if settings.paired else "Welch's t of their logs"
    test = "sign flips" if settings.paired else "relabelling"
    floor = "; floor: share reached of the stated least time of a token, A and B" if settings.floor else ""
    return (
        f"Unit: restarts ({len(comparison.a)} of A, {len(comparison.b)} of B), each by its median. A, B: geometric "
        f"means; B-A: change in % of A, and its {100 * (1 - settings.alpha):g} % interval in each row alone: {pairs}; "
        f"p: after Holm's correction over {len(comparison.rows)} rows; perm: p-value by {test}, uncorrected, as a "
        f"check{floor}."
    )


def notes(comparison: Comparison) -> list[str]:
    """What weakens the verdict, and what it would take to decide."""
    lines = list(comparison.notes)
    if min(len(comparison.a), len(comparison.b)) < 2:
        lines.append("One restart a side shows no spread, so nothing can be told; see penny-bench plan.")
    least = [
        f"{100 * row.detectable:.2g} % at {_place(row)}"
        for row in comparison.rows
        if row.verdict == "undecided" and row.detectable is not None
    ]
    if least:
        lines.append(
            f"So many restarts with such spreads detect, in 80 % of the cases: {', '.join(least)}. More restarts "
            f"detect less; see penny-bench plan."
        )
    for row in comparison.rows:
        lines += [
            f"{_place(row)}: {name} is faster than the stated floor, which is then no floor."
            for name, share in (("A", row.floor_a), ("B", row.floor_b))
            if share and share > 1
        ]
    return lines


def _heads(comparison: Comparison) -> list[str]:
    heads = ["streams", "metric", "A", "B", "B-A %", "interval", "p", "perm"]
    return [*heads, *(["floor %"] if comparison.settings.floor else []), "verdict"]


def _cells(row: ComparisonRow, comparison: Comparison) -> list[str]:
    interval = "-"
    if row.ratio:
        interval = f"{100 * (row.ratio.low - 1):+.1f}..{100 * (row.ratio.high - 1):+.1f}"
    cells = [
        str(row.concurrency),
        row.metric.label,
        f"{row.mean_a:.4g}",
        f"{row.mean_b:.4g}",
        f"{100 * row.change:+.1f}",
        interval,
        "-" if row.p is None else _p(row.p),
        _p(row.permutation.p),
    ]
    if comparison.settings.floor:
        shares = (row.floor_a, row.floor_b)
        cells.append("-" if None in shares else " ".join(f"{100 * (s or 0):.0f}" for s in shares))
    return [*cells, row.verdict]


def _p(p: float) -> str:
    return f"{p:.3f}" if p >= 0.001 else "<.001"


def _place(row: ComparisonRow) -> str:
    return f"{row.concurrency} stream{'s' if row.concurrency > 1 else ''} ({row.metric.label})"


def _title(comparison: Comparison) -> str:
    models = " and ".join(dict.fromkeys(r.model for r in (*comparison.a, *comparison.b)))
    return f"B against A, {models}, {comparison.a[0].tokens} tokens a stream"


def _file(restart: Restart) -> dict[str, str]:
    return {"file": restart.name, "sha256": restart.digest, "started": restart.started.isoformat()}
