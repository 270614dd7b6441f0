"""`penny-bench grade`."""

from __future__ import annotations

import json
import secrets
from pathlib import Path
from typing import Annotated, Any

import typer

from penny_bench.cases.reasoning.marks import Graded, graded, read_marks
from penny_bench.cases.reasoning.sheet import markdown, sheet
from penny_bench.errors import BenchError
from penny_bench.report.document import write_json
from penny_bench.report.files import write_text


def grade(
    runs: Annotated[list[Path], typer.Argument(help="Results of the workload reasoning; several are mixed.")],
    out: Annotated[
        Path | None, typer.Option("--sheet", help="Write the sheet to this name, as .md and .json.")
    ] = None,
    marks: Annotated[
        Path | None, typer.Option("--marks", help="The filled-in .json: put its marks into the results.")
    ] = None,
    seed: Annotated[int | None, typer.Option(help="Of the order on the sheet; else a new one.")] = None,
) -> None:
    """Have a person mark what no program can: a sheet that names no server, and the marks read back.

    Exit status: 0 done, 1 marks were read but some items are still unmarked, 2 nothing done.
    """
    if (out is None) == (marks is None):
        raise BenchError(
            "Give either --sheet, to write what is to be marked, or --marks, to read the marks back."
        )
    documents = [_read(path) for path in runs]
    if marks:
        _put(runs, documents, _read(marks))
        return
    assert out is not None
    if not out.parent.is_dir():
        raise BenchError(f"There is no folder {out.parent}; make it, or correct --sheet.")
    seed = secrets.randbelow(1_000_000) if seed is None else seed
    made = sheet(documents, seed)
    if not made["replies"]:
        raise BenchError("There is no reply to mark: every request of the run failed.")
    for suffix in (".md", ".json"):
        path = out.with_name(out.name + suffix)
        if path.exists():
            raise BenchError(f"There is already {path}, perhaps with marks; give another name.")
    write_text(out.with_name(out.name + ".md"), markdown(documents, seed))
    write_json(out.with_name(out.name + ".json"), made)
    items = sum(len(reply["items"]) for reply in made["replies"])
    typer.echo(f"{len(made['replies'])} replies with {items} items: read {out}.md, fill in {out}.json.")


def _put(runs: list[Path], documents: list[dict[str, Any]], data: Any) -> None:
    given = read_marks(data)
    results = [graded(document, given) for document in documents]
    if not any(result.found for result in results):
        raise BenchError(
            "None of the marks is for a reply of these results; give the results that the sheet is of."
        )
    for path, result in zip(runs, results, strict=True):
        if result.found:
            write_json(path, result.document, indent=None)
        typer.echo(_line(path, result))
    if any(result.unmarked for result in results):
        raise typer.Exit(1)


def _line(path: Path, result: Graded) -> str:
    line = (
        f"{path}: {result.score:g} of {result.of:g} points, {result.program:g} by program and {result.person:g} by "
        "a person"
    )
    if not result.unmarked:
        return line + "."
    case, name = result.unmarked[0]
    return f"{line}; {len(result.unmarked)} items are unmarked, the first is {name!r} of {case}."


def _read(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise BenchError(f"{path} cannot be read ({error}); give a file that penny-bench wrote.") from error
