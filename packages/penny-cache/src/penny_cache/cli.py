"""The `penny-cache` command."""

import json
import sys
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from penny_cache import __version__, namespace
from penny_cache.namespace import Namespace, NamespaceError

app = typer.Typer(
    help="Look into a store of prefix state.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)
namespace_app = typer.Typer(help="Namespaces: who may read which stored state.", no_args_is_help=True)
app.add_typer(namespace_app, name="namespace")

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


@app.callback(invoke_without_command=True)
def _version(version: Annotated[bool, typer.Option("--version", help="Print the version.")] = False) -> None:
    if version:
        typer.echo(f"penny-cache {__version__}")
        raise typer.Exit


@namespace_app.command()
def show(
    path: Annotated[Path, typer.Argument(help="A namespace directory, or a store that holds some.")],
    as_json: AsJson = False,
) -> None:
    """Show the identity of a namespace, or list the namespaces of a store."""
    if (path / namespace.MANIFEST_NAME).exists():
        _show_one(namespace.read(path), as_json)
    else:
        _show_store(path, as_json)


@namespace_app.command()
def diff(
    left: Annotated[Path, typer.Argument(help="A namespace directory.")],
    right: Annotated[Path, typer.Argument(help="Another one.")],
    as_json: AsJson = False,
) -> None:
    """Name the fields in which two namespaces differ. Exit status 1 if there are any."""
    found = namespace.diff(namespace.read(left).identity, namespace.read(right).identity)
    if as_json:
        typer.echo(json.dumps([{"path": d.path, "left": d.left, "right": d.right} for d in found], indent=2))
    elif not found:
        typer.echo("The two identities are equal.")
    else:
        table = Table("field", "left", "right")
        for d in found:
            table.add_row(*(escape("absent" if cell is None else cell) for cell in (d.path, d.left, d.right)))
        Console().print(table)
    if found:
        raise typer.Exit(1)


def main() -> None:
    """Entry point: errors are one sentence on stderr and exit status 2."""
    try:
        app()
    except NamespaceError as error:
        print(f"penny-cache: {error}", file=sys.stderr)
        sys.exit(2)


def _show_one(one: Namespace, as_json: bool) -> None:
    identity = one.identity
    if as_json:
        typer.echo(
            json.dumps({"path": str(one.path), "sha256": identity.digest, **json.loads(identity.canonical)})
        )
        return
    table = Table(
        "field", "value", title=escape(f"{identity.name}  sha256 {identity.digest}"), title_justify="left"
    )
    for key, value in identity.fields.items():
        table.add_row(escape(key), escape(json.dumps(value, ensure_ascii=False)))
    Console().print(table)


def _show_store(root: Path, as_json: bool) -> None:
    found, wrong = namespace.find(root)
    if as_json:
        listed = [{"path": str(n.path), "name": n.identity.name, "sha256": n.identity.digest} for n in found]
        typer.echo(json.dumps({"namespaces": listed, "damaged": [str(error) for error in wrong]}, indent=2))
        return
    if not found and not wrong:
        typer.echo(f"There is no namespace in {root}.")
    if found:
        table = Table("directory", "name", "fields")
        for n in found:
            table.add_row(escape(n.path.name), escape(n.identity.name), str(len(n.identity.fields)))
        Console().print(table)
    for error in wrong:
        typer.echo(f"Damaged: {error}")
