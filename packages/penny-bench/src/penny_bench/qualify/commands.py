"""`penny-bench qualify`."""

from __future__ import annotations

import json
import secrets
import shlex
import sys
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.table import Table

from penny_bench import __version__
from penny_bench.errors import BenchError
from penny_bench.evidence import SCHEMA, redact
from penny_bench.once import Target, run_once
from penny_bench.qualify.judge import Judged, judge
from penny_bench.qualify.page import Outcome, page, passed, qualification_document
from penny_bench.qualify.plan import PlannedRun, read_plan
from penny_bench.report import print_run, write_json
from penny_bench.report.files import write_text
from penny_bench.save import save
from penny_bench.workload import Workload, read_workload


def qualify(
    plan_file: Annotated[Path, typer.Argument(metavar="PLAN", help="TOML file of the plan.")],
    out: Annotated[Path, typer.Option(help="Folder for the page and the results; made if it is not there.")],
    url: Annotated[str | None, typer.Option(help="Address of the server, in place of the plan's.")] = None,
    api_key: Annotated[str | None, typer.Option(envvar="OPENAI_API_KEY", help="Bearer token.")] = None,
) -> None:
    """Run a list of workloads with their pass marks, and write the page that a release publishes.

    Results that are in the folder already are kept, so an interrupted qualification goes on where it was.

    Exit status: 0 all marks reached, 1 some missed, 2 no qualification, 130 interrupted.
    """
    plan = read_plan(plan_file)
    work = [(run, _workload(run, plan_file.parent)) for run in plan.runs]
    try:
        out.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise BenchError(f"The folder {out} cannot be made ({error.strerror}); choose another.") from error
    target = Target(url or plan.url, plan.model, api_key, plan.timeout)
    console = Console()
    outcomes: list[Outcome] = []
    for number, (run, workload) in enumerate(work, 1):
        file = out / f"{run.title}.json"
        document = _kept(file, workload, run.seed)
        heading = f"{number} of {len(work)}: {run.title}"
        kept = {"complete": " (kept from before)", "partial": " (goes on)"}
        console.rule(heading + kept.get(document["status"] if document else "", ""))
        if document is None or document["status"] == "partial":
            document = run_once(
                target,
                workload,
                _seed(run, document),
                floors=plan.floor,
                earlier=document,
                show=Console(stderr=True),
            )
            save(file, document)
        print_run(document, console)
        outcomes.append((run.title, document, judge(run, document)))
        if document["status"] == "partial":
            console.print("Interrupted. Run the same command again to go on.")
            raise typer.Exit(130)
    command = redact.command(["penny-bench", *sys.argv[1:]])
    write_json(out / "qualification.json", qualification_document(plan, outcomes, command, __version__))
    write_text(out / "qualification.md", page(plan, outcomes))
    _print(outcomes, console)
    console.print(
        f"The page is {shlex.quote(str(out / 'qualification.md'))}.", highlight=False, soft_wrap=True
    )
    if not passed(outcomes):
        raise typer.Exit(1)


def _workload(run: PlannedRun, folder: Path) -> Workload:
    beside = folder / run.workload
    what = str(beside) if run.workload.endswith(".toml") else run.workload
    return read_workload(what, run.set)


def _seed(run: PlannedRun, partial: dict[str, Any] | None) -> int:
    if partial:
        return int(partial["plan"]["seed"])
    return secrets.randbelow(1_000_000) if run.seed is None else run.seed


def _kept(file: Path, workload: Workload, seed: int | None) -> dict[str, Any] | None:
    """The result of the same workload, whole or partial, if the folder has it."""
    try:
        document: dict[str, Any] = json.loads(file.read_bytes())
    except FileNotFoundError:
        return None
    except (OSError, ValueError) as error:
        raise BenchError(f"{file} cannot be read ({error}); remove it, or choose another --out.") from error
    if document.get("schema") != SCHEMA or not document.get("workload"):
        raise BenchError(f"{file} is no result of a workload; remove it, or choose another --out.")
    other_seed = seed is not None and document["plan"]["seed"] != seed
    if document["workload"]["digest"] != workload.digest or other_seed:
        raise BenchError(
            f"{file} is of another workload, setting or seed; remove it, or choose another --out."
        )
    return document


def _print(outcomes: list[Outcome], console: Console) -> None:
    table = Table(title="Marks", title_justify="left")
    for head in ("run", "number", "mark", "reached", ""):
        table.add_column(head)
    for name, _, marks in outcomes:
        for mark in marks:
            table.add_row(name, *_cells(mark), style="" if mark.passed else "red")
    console.print(table)


def _cells(mark: Judged) -> tuple[str, str, str, str]:
    reached = "not there" if mark.value is None else f"{mark.value:.4g} {mark.unit}"
    return mark.what, mark.limit, reached, "reached" if mark.passed else f"missed {mark.detail}".rstrip()
