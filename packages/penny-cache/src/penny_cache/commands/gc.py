"""`penny-cache gc`: making room in a store."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from inspect import cleandoc
from pathlib import Path
from typing import Annotated

import numpy as np
import typer

from penny_cache.commands.output import AsJson, emit
from penny_cache.commands.units import HELP, shown, size
from penny_cache.commands.where import StorePath, reading, writing
from penny_cache.store import Settings, Store
from penny_cache.store.eviction import victims


@dataclass(frozen=True)
class _Freed:
    """Bundles and snapshots that went, and bytes of the store before and after."""

    bundles: int
    snapshots: int
    before: int
    after: int


def gc(
    path: StorePath,
    budget: Annotated[
        int | None,
        typer.Option(
            parser=size, metavar="SIZE", help="Bytes that the store may take on the drive, say 500G."
        ),
    ] = None,
    free: Annotated[
        int | None,
        typer.Option(parser=size, metavar="SIZE", help="Bytes to free, whatever the store takes now."),
    ] = None,
    snapshots: Annotated[
        str,
        typer.Option(
            metavar="NAMES", help="Parts that only the end of a prefix needs: state,conv. They go first."
        ),
    ] = "",
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say what would go.")] = False,
    as_json: AsJson = False,
) -> None:
    """Give up bundles to make room.

    Inner snapshots go first, then the ends of chains. Not beside a server, which holds itself to its own budget.
    """
    if budget is None and free is None:
        raise typer.BadParameter("say how much: --budget 500G or --free 10G.")
    settings = Settings(snapshots=frozenset(filter(None, snapshots.split(","))))
    wanted, done = (_would if dry_run else _give_up)(path, settings, budget, free or 0)
    if as_json:
        emit({**asdict(done), "wanted": wanted, "dry_run": dry_run})
    else:
        what = f"{done.bundles:,} bundles and {done.snapshots:,} snapshots"
        went, now, then = ("Would go: about", "now", "about") if dry_run else ("Gone:", "before", "now")
        typer.echo(f"{went} {what}; on the drive {shown(done.before)} {now}, {then} {shown(done.after)}.")

        if done.after > wanted:
            typer.echo(f"No more may go; {shown(wanted)} were wanted.")
    if done.after > wanted:
        raise typer.Exit(1)


gc.__doc__ = f"{cleandoc(gc.__doc__ or '')}\n\n{HELP}"


def _target(before: int, budget: int | None, free: int) -> int:
    return max(0, min(before - free, before if budget is None else budget))


def _give_up(path: Path, settings: Settings, budget: int | None, free: int) -> tuple[int, _Freed]:
    with writing(path, settings) as (store, _):
        before, bundles = store.allocated, len(store)
        wanted = _target(before, budget, free)
        # A hole may free less than its bytes, so there may be another round.
        while (over := store.allocated - wanted) > 0:
            if store.collect(over) <= 0:
                break
        gone = bundles - len(store)
        return wanted, _Freed(gone, store.counters.evicted - gone, before, store.allocated)


def _would(path: Path, settings: Settings, budget: int | None, free: int) -> tuple[int, _Freed]:
    with reading(path, settings) as (store, _):
        before = store.allocated
        wanted = _target(before, budget, free)
        return wanted, _foreseen(store, settings, before, wanted)


def _foreseen(store: Store, settings: Settings, before: int, wanted: int) -> _Freed:
    bundles = snapshots = 0
    after = before
    view = store.recovered.index.view()
    for victim in victims(view, settings.snapshots, np.zeros(len(view.rows), bool)):
        if after <= wanted:
            break
        bundles, snapshots = bundles + (not victim.parts), snapshots + bool(victim.parts)
        after -= victim.size
    return _Freed(bundles, snapshots, before, max(0, after))
