"""The `penny-bench` command: all its subcommands, in the order in which `--help` lists them."""

import sys
from collections.abc import Callable
from typing import Annotated

import typer

from penny_bench import __version__
from penny_bench.abba.command import abba
from penny_bench.cases.reasoning.grade_command import grade
from penny_bench.compare.commands import compare, plan
from penny_bench.decode_command import decode
from penny_bench.demo.commands import demo
from penny_bench.errors import BenchError
from penny_bench.history.commands import history
from penny_bench.importers.commands import import_result
from penny_bench.mock.command import mock
from penny_bench.qualify.commands import qualify
from penny_bench.report.commands import report
from penny_bench.run_command import run, schema, workloads
from penny_bench.submit.commands import submit

app = typer.Typer(
    help="Measure any OpenAI-compatible server.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
)

GROUPS: dict[str, tuple[Callable[..., None], ...]] = {
    "Measure": (run, workloads, decode, qualify, grade),
    "Compare": (plan, abba, compare, history),
    "Report": (report, import_result, submit, schema),
    "Without a server": (demo, mock),
}
for panel, commands in GROUPS.items():
    for command in commands:
        name = "import" if command is import_result else None
        app.command(name, rich_help_panel=panel)(command)


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        typer.echo(f"penny-bench {__version__}")
        raise typer.Exit


def main() -> None:
    """Entry point: errors are one sentence on stderr and exit status 2."""
    try:
        app()
    except BenchError as error:
        print(f"penny-bench: {error}", file=sys.stderr)
        sys.exit(2)
