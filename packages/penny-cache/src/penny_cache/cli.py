"""The `penny-cache` command."""

from __future__ import annotations

import logging
import sys
from typing import Annotated

import typer

from penny_cache import __version__
from penny_cache.commands import bring, export, gc, later, ls, namespaces, stat, verify
from penny_cache.namespace import CheckpointError, NamespaceError
from penny_cache.store import StoreError

app = typer.Typer(
    help="Look into a store of prefix state, check it, make room in it, and take it elsewhere.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
app.command()(ls.ls)
app.command()(stat.stat)
app.command()(verify.verify)
app.command()(gc.gc)
app.command()(export.export)
app.command("import")(bring.bring)
app.add_typer(namespaces.app, name="namespace")
later.add(app)


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        typer.echo(f"penny-cache {__version__}")
        raise typer.Exit


class _ToStderr(logging.Handler):
    """Lines on what stderr is at the moment: a progress bar stands in for it, so that lines come above the bar."""

    def emit(self, record: logging.LogRecord) -> None:
        print(f"penny-cache: {record.getMessage()}", file=sys.stderr)


def main() -> None:
    """Entry point: errors are one sentence on stderr and exit status 2."""
    logging.basicConfig(handlers=[_ToStderr()], level=logging.WARNING)

    try:
        app(prog_name="penny-cache")
    except (NamespaceError, StoreError, CheckpointError) as error:
        print(f"penny-cache: {error}", file=sys.stderr)
        sys.exit(2)
    except OSError as error:
        where = f" ({error.filename})" if error.filename else ""
        print(f"penny-cache: {error.strerror or error}{where}.", file=sys.stderr)
        sys.exit(2)
