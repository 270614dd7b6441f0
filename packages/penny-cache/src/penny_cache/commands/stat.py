"""`penny-cache stat`: figures of a store."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import typer

from penny_cache.commands.output import AsJson, emit, show, table, text
from penny_cache.commands.units import shown
from penny_cache.commands.where import StorePath, reading
from penny_cache.inspect import Report, report
from penny_cache.namespace import Namespace


def stat(
    path: StorePath,
    as_json: AsJson = False,
    prometheus: Annotated[bool, typer.Option("--prometheus", help="Print Prometheus' text format.")] = False,
) -> None:
    """Show what a store holds and takes.

    That is: its bundles and their parts, how they hang together, its segments, and bytes on the drive.
    """
    with reading(path) as (store, here):
        if prometheus:
            from penny_cache.metrics import exposition

            typer.echo(exposition([store]), nl=False)
            return
        found = report(store)
    if as_json:
        emit(
            {
                "path": str(here.path),
                "name": here.identity.name,
                "sha256": here.identity.digest,
                **asdict(found),
            }
        )
    else:
        _show(found, here)


def _show(found: Report, here: Namespace) -> None:
    lines = table("what", "value", "note")
    lines.show_header = False

    def row(what: str, value: object, note: str = "") -> None:
        lines.add_row(what, text(value), text(note))

    row("store", here.path.name, here.identity.name)
    row("bundles", f"{found.bundles:,}")
    for name, total in found.parts.items():
        row(f"  {text(name)}", shown(total.size), f"in {total.count:,} bundles")
    if found.given_up.count:
        row("  given up", shown(found.given_up.size), f"{found.given_up.count:,} parts, to make room")
    row("chains", f"{found.chains:,}", "bundles without a parent")
    row("tails", f"{found.tails:,}", "bundles that nothing hangs on")
    row("branch points", f"{found.branch_points:,}")
    row("depth", f"{found.depth:,}", "bundles of the longest chain")
    row(
        "holes",
        f"{found.holes:,}",
        f"{found.stranded:,} bundles behind them are of no use" if found.holes else "",
    )
    row(
        "segments",
        f"{found.sealed + found.unsealed:,}",
        f"{found.unsealed:,} not sealed, so that opening the store reads them"
        if found.unsealed
        else "sealed",
    )
    if found.unreadable:
        row("unreadable", f"{found.unreadable:,}", "segments that the drive does not give")
    row(
        "on the drive",
        shown(found.allocated),
        f"files of {shown(found.files)}, parts of {shown(found.logical)}",
    )
    show(lines)
