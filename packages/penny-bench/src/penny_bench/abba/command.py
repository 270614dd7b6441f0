"""The command `penny-bench abba`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from penny_bench import __version__
from penny_bench.abba.campaign import run_plan
from penny_bench.abba.interrupts import Interrupts
from penny_bench.abba.plan import AbbaPlan, read_plan
from penny_bench.abba.record import Record, steps
from penny_bench.abba.words import before
from penny_bench.compare import EXIT, Comparison, comparison_document, markdown, print_comparison
from penny_bench.errors import BenchError
from penny_bench.evidence import redact
from penny_bench.report import write_json


def abba(
    plan: Annotated[Path, typer.Argument(help="TOML file: two servers, what to measure, how many restarts.")],
    out: Annotated[
        Path | None, typer.Option(help="Folder for results and logs; else the plan's name without .toml.")
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Only print what would be run and what it could tell.")
    ] = False,
) -> None:
    """Compare two settings from start to end: restarts in ABBA order, measurements, verdict.

    An interrupted one goes on with the same command. Exit status as of compare: 0 no worse than by the margin,
    1 worse, 3 undecided, 2 not measured or not comparable, 130 interrupted.
    """
    console, errors = Console(), Console(stderr=True)
    made = read_plan(plan)
    folder = out or Path(plan.stem)
    for line in before(made, folder):
        console.print(line, markup=False, highlight=False, soft_wrap=True)
    if dry_run:
        return
    record = Record(folder, made)
    with Interrupts() as interrupts:
        try:
            comparison = _run(made, record, interrupts, errors)
        except KeyboardInterrupt:
            left = sum(not record.finished(step) for step in steps(made.restarts))
            errors.print(
                f"Interrupted; the server was ended. {left} of {2 * made.restarts} starts are left: run the same "
                f"command again to go on.",
                markup=False,
                highlight=False,
                soft_wrap=True,
            )
            raise typer.Exit(130) from None
    _report(made, folder, comparison, console)
    raise typer.Exit(EXIT[comparison.verdict])


def _run(plan: AbbaPlan, record: Record, interrupts: Interrupts, errors: Console) -> Comparison:
    all_steps = steps(plan.restarts)
    kept = sum(record.finished(step) for step in all_steps)
    columns = (BarColumn(20), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=errors, transient=True, disable=not errors.is_terminal) as progress:
        task = progress.add_task("", total=len(all_steps), completed=kept)

        def now(what: str) -> None:
            progress.update(
                task, description=escape(what), completed=sum(record.finished(s) for s in all_steps)
            )

        def tell(what: str) -> None:
            errors.print(what, markup=False, highlight=False, soft_wrap=True)

        if kept:
            tell(f"{kept} of {len(all_steps)} starts are finished already.")
        return run_plan(plan, record, interrupts, now, tell)


def _report(plan: AbbaPlan, folder: Path, comparison: Comparison, console: Console) -> None:
    print_comparison(comparison, console)
    command = redact.command(["penny-bench", *sys.argv[1:]])
    names = {"A": plan.a.name, "B": plan.b.name}
    write_json(
        folder / "compare.json", {**comparison_document(comparison, command, __version__), "names": names}
    )
    titles = "\n".join(f"{side}: {name}" for side, name in names.items())
    try:
        (folder / "compare.md").write_text(f"{titles}\n\n{markdown(comparison)}", encoding="utf-8")
    except OSError as error:
        raise BenchError(f"Could not write {folder / 'compare.md'}: {error.strerror}.") from error
    console.print(f"Written: {folder / 'compare.json'}, compare.md", markup=False, highlight=False)
