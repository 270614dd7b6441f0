"""`penny-cache verify`: whether every bundle is what was stored."""

from __future__ import annotations

import time
from typing import Annotated

import typer

from penny_cache.commands.output import SHORT, AsJson, emit, progress, show, silent, table, text
from penny_cache.commands.units import shown
from penny_cache.commands.where import StorePath, reading, writing
from penny_cache.inspect import Damage, Verified
from penny_cache.inspect import verify as read_all


def verify(
    path: StorePath,
    repair: Annotated[
        bool, typer.Option("--repair", help="Forget what is damaged, so that nothing looks for it again.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Read and check every bundle.

    Works beside a server; --repair does not. Exit status 1 if anything is damaged.
    """
    start = time.perf_counter()
    with silent(), (writing if repair else reading)(path) as (store, here):
        with progress("reading", len(store), as_json) as tell:
            found = read_all(store, here, tell)
        unreadable, dropped = store.recovered.unreadable, store.recovered.dropped
    seconds = time.perf_counter() - start
    if as_json:
        emit(
            {
                "bundles": found.bundles, "bytes": found.size, "seconds": round(seconds, 3),
                "damaged": [_plain(one) for one in found.damaged], "unreadable_segments": unreadable,
                "gone": found.gone, "dropped": dropped, "repaired": repair,
            }
        )  # fmt: skip
    else:
        _show(found, unreadable, dropped, seconds, repair)
    if found.damaged or unreadable:
        raise typer.Exit(1)


def _plain(one: Damage) -> dict[str, object]:
    return {"key": one.key.hex(), "segment": one.segment, "block": one.block, "why": one.why}


def _show(found: Verified, unreadable: list[int], dropped: int, seconds: float, repair: bool) -> None:
    if found.damaged:
        lines = table("damaged", "segment", "block", "why", right=("segment", "block"))
        for one in found.damaged:
            lines.add_row(one.key.hex()[:SHORT], str(one.segment), str(one.block), text(one.why))
        show(lines)
    speed = shown(found.size / seconds if seconds else 0.0)
    typer.echo(f"Whole: {found.bundles:,} bundles, {shown(found.size)} in {seconds:.1f} s, {speed}/s.")
    if found.damaged:
        what = "now forgotten" if repair else "--repair forgets them"
        typer.echo(f"Damaged: {len(found.damaged):,}; {what}.")
    if unreadable:
        typer.echo(f"Segments that the drive does not give: {', '.join(map(str, unreadable))}.")
    if found.gone:
        typer.echo(f"Given up or replaced by a running writer meanwhile: {found.gone:,}.")
    if dropped:
        typer.echo(f"Not whole when the last writer ended, and forgotten: {dropped:,}.")
