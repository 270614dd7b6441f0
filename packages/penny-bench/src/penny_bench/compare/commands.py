"""The commands `penny-bench compare` and `penny-bench plan`."""

import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from penny_bench import __version__
from penny_bench.compare.comparison import compare_restarts
from penny_bench.compare.planning import plan_comparison, plan_document, plan_text
from penny_bench.compare.report import comparison_document, markdown, print_comparison
from penny_bench.compare.restart import read_side
from penny_bench.compare.settings import Settings
from penny_bench.compare.verdict import EXIT
from penny_bench.errors import BenchError
from penny_bench.evidence import redact
from penny_bench.report import write_json

JsonFile = Annotated[Path | None, typer.Option("--json", help="Write everything to this file.")]
Alpha = Annotated[float, typer.Option(help="Rate of false alarms among all rows.")]


def compare(
    a: Annotated[
        str,
        typer.Argument(
            help="Results of the old side: a folder with a file or a folder for each restart, or files with commas."
        ),
    ],
    b: Annotated[str, typer.Argument(help="Results of the new side.")],
    margin: Annotated[float, typer.Option(help="Change to the worse that does not matter, a share.")] = 0.03,
    paired: Annotated[
        bool, typer.Option("--paired", help="Compare pair by pair, for runs in ABBA order.")
    ] = False,
    metric: Annotated[
        str | None,
        typer.Option(
            help="Patterns with commas between: aggregate, or WORKLOAD/PHASE/METRIC such as 'decode/C*/ttft'; else "
            "the headline numbers."
        ),
    ] = None,
    floor: Annotated[
        str | None,
        typer.Option(
            help="Least time of a token in a stream, ms: 4.5, or by concurrency 1=4.5,8=6; else what the results state."
        ),
    ] = None,
    alpha: Alpha = 0.05,
    force: Annotated[
        bool, typer.Option("--force", help="Compare unlike or faulty results, labelled.")
    ] = False,
    json_file: JsonFile = None,
    as_markdown: Annotated[bool, typer.Option("--markdown", help="Print Markdown.")] = False,
) -> None:
    """Compare two settings over restarts of the server, from what penny-bench decode and run wrote with --json.

    A file is one restart, or a folder with a file for each workload is.

    Exit status: 0 no worse than by the margin, 1 worse, 3 undecided, 2 not comparable.
    """
    _check_folder(json_file)
    settings = Settings(
        metrics=tuple(metric.split(",")) if metric else (),
        margin=margin,
        alpha=alpha,
        paired=paired,
        floor=parse_floor(floor),
        force=force,
    )
    comparison = compare_restarts(read_side(a), read_side(b), settings)
    if as_markdown:
        typer.echo(markdown(comparison), nl=False)
    else:
        print_comparison(comparison, Console())
    if json_file:
        write_json(json_file, comparison_document(comparison, _command(), __version__))
    raise typer.Exit(EXIT[comparison.verdict])


def plan(
    cv: Annotated[float, typer.Option(help="Spread between restarts of one side, a share: 0.03 is 3 %.")],
    effect: Annotated[float, typer.Option(help="Difference that shall be found, a share.")],
    restarts: Annotated[int | None, typer.Option(help="Restarts a side; else as many as it takes.")] = None,
    alpha: Alpha = 0.05,
    power: Annotated[float, typer.Option(help="Chance to find the difference.")] = 0.8,
    rows: Annotated[int, typer.Option(help="Metrics times concurrencies that will be compared.")] = 1,
    paired: Annotated[bool, typer.Option("--paired", help="For compare --paired.")] = False,
    json_file: JsonFile = None,
) -> None:
    """Plan a comparison: how many restarts, in which order, and what they can detect.

    Exit status: 0 the restarts are enough, 1 they are too few, 2 no plan.
    """
    _check_folder(json_file)
    made = plan_comparison(cv, effect, restarts=restarts, alpha=alpha, power=power, paired=paired, rows=rows)
    typer.echo(plan_text(made))
    if json_file:
        write_json(json_file, plan_document(made, _command(), __version__))
    if made.restarts < made.needed:
        raise typer.Exit(1)


def parse_floor(text: str | None) -> dict[int, float] | None:
    """Times in ms by number of streams, 0 for any: of `4.5` or `1=4.5,8=6`.

    Raises:
        BenchError: it is neither.
    """
    if text is None:
        return None
    try:
        if "=" not in text:
            return {0: float(text)}
        pairs = [part.split("=") for part in text.split(",")]
        return {int(c): float(time) for c, time in pairs}
    except ValueError:
        raise BenchError(f"--floor is {text!r}; give ms such as 4.5, or by concurrency 1=4.5,8=6.") from None


def _check_folder(json_file: Path | None) -> None:
    if json_file and not json_file.parent.is_dir():
        raise BenchError(f"There is no folder {json_file.parent}; make it, or correct --json.")


def _command() -> str:
    return redact.command(["penny-bench", *sys.argv[1:]])
