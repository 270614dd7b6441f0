"""`penny-cache namespace`: who may read which stored state."""

from __future__ import annotations

import json
import time
from inspect import cleandoc
from pathlib import Path
from typing import Annotated

import typer

from penny_cache import namespace
from penny_cache.commands.output import AsJson, emit, show, table, text
from penny_cache.commands.units import HELP, ago, seconds, shown, size
from penny_cache.namespace import Choice, Collected, Namespace, Policy, Usage

app = typer.Typer(help="Namespaces: who may read which stored state.", no_args_is_help=True)
Directory = Annotated[
    Path, typer.Argument(metavar="NAMESPACE", help="A namespace directory.", show_default=False)
]


@app.command("show")
def show_identity(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH",
            help="A namespace directory, or the root of a store that holds some.",
            show_default=False,
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Show an identity, or list the namespaces of a root."""
    if (path / namespace.MANIFEST_NAME).exists():
        _show_one(namespace.read(path), as_json)
    else:
        _show_root(path, as_json)


@app.command()
def diff(left: Directory, right: Directory, as_json: AsJson = False) -> None:
    """Name the fields in which two namespaces differ. Exit status 1 if there are any."""
    found = namespace.diff(namespace.read(left).identity, namespace.read(right).identity)
    if as_json:
        emit([{"path": d.path, "left": d.left, "right": d.right} for d in found])
    elif not found:
        typer.echo("The two identities are equal.")
    else:
        lines = table("field", "left", "right")
        for d in found:
            lines.add_row(*(text("absent" if cell is None else cell) for cell in (d.path, d.left, d.right)))
        show(lines)
    if found:
        raise typer.Exit(1)


@app.command()
def gc(
    root: Annotated[
        Path,
        typer.Argument(metavar="ROOT", help="The root of a store that holds namespaces.", show_default=False),
    ],
    keep: Annotated[
        int | None,
        typer.Option(
            min=0, metavar="N", help="So many of those used last stay; alone, all others go. 1 if not given."
        ),
    ] = None,
    unused_for: Annotated[
        float | None,
        typer.Option(parser=seconds, metavar="TIME", help="Remove what was not used for so long: 12h, 30d."),
    ] = None,
    budget: Annotated[
        int | None,
        typer.Option(
            parser=size,
            metavar="SIZE",
            help="Remove the longest unused until all take no more: 500G.",
        ),
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    as_json: AsJson = False,
) -> None:
    """Remove old namespaces.

    What is left of unfinished, damaged and half removed ones goes too.

    Used means written to, or opened by a writer: reading leaves no trace. Nothing goes that is open, that holds files
    which are not penny-cache's, or that is a link. Exit status 1 if something could not be removed.
    """
    if unused_for is None and budget is None and keep is None:
        raise typer.BadParameter("say what may go: --unused-for 30d, --budget 500G or --keep 3.")
    found = namespace.usage(root)
    choices = namespace.choose(found, Policy(1 if keep is None else keep, unused_for, budget), time.time())
    done = Collected() if dry_run else namespace.collect(root, choices)
    if as_json:
        _emit_gc(found, choices, done, dry_run)
    else:
        _show_gc(found, choices, done, dry_run)
    if done.kept:
        raise typer.Exit(1)


def _show_one(one: Namespace, as_json: bool) -> None:
    identity = one.identity
    if as_json:
        emit({"path": str(one.path), "sha256": identity.digest, **json.loads(identity.canonical)})
        return
    typer.echo(f"{identity.name}  sha256 {identity.digest}\n")
    lines = table("field", "value")
    for key, value in identity.fields.items():
        lines.add_row(text(key), text(json.dumps(value, ensure_ascii=False)))
    show(lines)


def _show_root(root: Path, as_json: bool) -> None:
    found, wrong = namespace.find(root)
    used = {one.directory: one for one in namespace.usage(root)}
    if as_json:
        listed = [
            {
                "path": str(n.path),
                "name": n.identity.name,
                "sha256": n.identity.digest,
                **_plain(used.get(n.path.name)),
            }
            for n in found
        ]
        emit({"namespaces": listed, "damaged": [str(error) for error in wrong]})
        return
    if not found and not wrong:
        typer.echo(f"There is no namespace in {root}.")
    if found:
        lines = table(
            "directory", "fields", "on the drive", "used", "in use", right=("fields", "on the drive", "used")
        )
        now = time.time()
        for n in found:
            one = used.get(n.path.name)
            if one is not None:
                size, age = shown(one.size), ago(max(0.0, now - one.used))
                lines.add_row(text(n.path.name), str(len(n.identity.fields)), size, age, text(one.user))
        show(lines)
    for error in wrong:
        typer.echo(f"Damaged: {error}")


def _plain(one: Usage | None) -> dict[str, object]:
    return {} if one is None else {"bytes": one.size, "used": round(one.used, 3), "user": one.user}


def _emit_gc(found: list[Usage], choices: list[Choice], done: Collected, dry_run: bool) -> None:
    emit(
        {
            "chosen": [{"directory": c.usage.directory, "bytes": c.usage.size, "why": c.why} for c in choices],
            "left_alone": [{"directory": n, "why": why} for n, why in _left_alone(found)],
            "gone": done.gone, "freed": done.freed, "dry_run": dry_run,
            "kept": [{"name": name, "why": why} for name, why in done.kept],
        }
    )  # fmt: skip


def _show_gc(found: list[Usage], choices: list[Choice], done: Collected, dry_run: bool) -> None:
    if choices:
        lines = table("would go" if dry_run else "chosen", "on the drive", "because", right=("on the drive",))
        for choice in choices:
            lines.add_row(text(choice.usage.directory), shown(choice.usage.size), text(choice.why))
        show(lines)
    for name, why in _left_alone(found):
        typer.echo(f"Left alone: {name}: {why}.")
    if dry_run:
        total = sum(choice.usage.size for choice in choices)
        typer.echo(f"{len(choices)} of {len(found)} directories would go, {shown(total)}.")
    else:
        typer.echo(f"{len(done.gone)} of {len(found)} directories went, {shown(done.freed)} came free.")
    for name, why in done.kept:
        typer.echo(f"Not removed: {name}: {why}.")


def _left_alone(found: list[Usage]) -> list[tuple[str, str]]:
    return [
        (one.directory, one.user or f"it holds {one.foreign}, which penny-cache did not make")
        for one in found
        if one.user or one.foreign
    ]


gc.__doc__ = f"{cleandoc(gc.__doc__ or '')}\n\n{HELP}"
