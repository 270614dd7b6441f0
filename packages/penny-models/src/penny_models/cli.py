"""The ``penny-models`` command. Exit codes: 0 good, 2 wrong usage, 4 bad checkpoint."""

import dataclasses
import json
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.markdown import Markdown

from penny_models import CheckpointError, check_checkpoint, tiny

app = typer.Typer(no_args_is_help=True, add_completion=False, help="Check checkpoints; find the tiny ones.")
tiny_app = typer.Typer(
    no_args_is_help=True, help="The tiny trained checkpoints that travel with the package."
)
app.add_typer(tiny_app, name="tiny")

Name = Annotated[str, typer.Argument(help="A name from `penny-models tiny list`.")]


def _fail(error: Exception, code: int) -> NoReturn:
    # Plain echo, not rich: a path may hold brackets that rich would take for markup.
    typer.echo(f"Error: {error}", err=True)
    raise typer.Exit(code)


@app.command()
def check(
    path: Annotated[Path, typer.Argument(help="A checkpoint folder.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print the report as JSON.")] = False,
) -> None:
    """Check a checkpoint before serving: files, tensor names, shapes and dtypes; weights are not loaded."""
    try:
        report = check_checkpoint(path)
    except CheckpointError as error:
        _fail(error, 4)
    if as_json:
        typer.echo(json.dumps(dataclasses.asdict(report), indent=2))
        return
    dtypes = ", ".join(f"{count} {dtype}" for dtype, count in report.dtypes.items())
    typer.echo(f"{report.path} is whole: {report.architecture}")
    typer.echo(f"  {report.tensors} tensors ({dtypes}) in {report.shards} files, {report.bytes:,} bytes")
    typer.echo(f"  {report.parameters:,} parameters; NEXTN (MTP) layers: {report.mtp_layers}")
    for warning in report.warnings:
        typer.echo(f"  Warning: {warning}")


@tiny_app.command("list")
def list_command() -> None:
    """List the shipped checkpoints with their size."""
    for name in tiny.names():
        report = check_checkpoint(tiny.path(name))
        typer.echo(f"{name}  {report.architecture}  {report.parameters:,} parameters  {report.bytes:,} bytes")


@tiny_app.command("path")
def path_command(name: Name) -> None:
    """Print the folder of a shipped checkpoint."""
    try:
        typer.echo(tiny.path(name))
    except ValueError as error:
        _fail(error, 2)


@tiny_app.command("card")
def card_command(name: Name) -> None:
    """Show the data card of a shipped checkpoint: Markdown on a terminal, plain text into a file."""
    try:
        text = tiny.card(name)
    except ValueError as error:
        _fail(error, 2)
    console = Console()
    if console.is_terminal:
        console.print(Markdown(text))
    else:
        typer.echo(text, nl=False)


def main() -> None:
    """Run the command line."""
    app()
