"""`penny-cache torture`: all of it on the drive of the user's choice."""

from __future__ import annotations

import logging
import secrets
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Annotated

import typer

from penny_cache.commands.output import AsJson, emit, progress, show, silent, table, text
from penny_cache.torture.cuts import cuts as cut_power
from penny_cache.torture.faults import faults as play_faults
from penny_cache.torture.flips import flips as damage
from penny_cache.torture.kills import ENGINE
from penny_cache.torture.kills import kills as kill
from penny_cache.torture.ledger import BAD
from penny_cache.torture.result import Progress, Result

app = typer.Typer(add_completion=False, rich_markup_mode=None)


@app.command()
def torture(
    path: Annotated[
        Path, typer.Argument(help="A directory that is missing or empty, on the drive in question.")
    ],
    kills: Annotated[int, typer.Option(min=0, help="Processes to kill while they write.")] = 200,
    cuts: Annotated[int, typer.Option(min=0, help="Power cuts to draw from recorded work.")] = 10_000,
    flips: Annotated[int, typer.Option(min=0, help="Bits to flip in a closed store.")] = 10_000,
    truncations: Annotated[int, typer.Option(min=0, help="Files to cut short.")] = 1_000,
    faults: Annotated[
        bool, typer.Option(help="Full, broken and read-only drives, and other writers.")
    ] = True,
    mounts: Annotated[
        bool, typer.Option(help="With --faults: also fill and remount small file systems (as root).")
    ] = False,
    engine: Annotated[
        str, typer.Option(help="Engine of the processes that are killed, as module:class.")
    ] = ENGINE,
    seed: Annotated[int | None, typer.Option(help="Of all that is random; a new one if not given.")] = None,
    as_json: AsJson = False,
) -> None:
    """Try to break the store: kills, power cuts, damage, failing drives.

    Exit status 1 if anything was broken; the seed that is printed runs the same again.
    """
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise typer.BadParameter(f"{path} is not an empty directory; torture leaves what it finds alone.")
    seed = secrets.randbelow(1 << 31) if seed is None else seed
    path.mkdir(mode=0o700, parents=True, exist_ok=True)
    campaigns: list[tuple[str, int, Callable[[Progress], Result]]] = [
        ("kills", kills, lambda tell: kill(path / "kills", kills, seed, tell, engine)),
        ("cuts", cuts, lambda tell: cut_power(path, cuts, seed, tell)),
        ("flips", flips + truncations, lambda tell: damage(path, flips, truncations, seed, tell)),
        ("faults", int(faults), lambda tell: play_faults(path, seed, tell, real=mounts)),
    ]
    results: list[Result] = []
    for name, rounds, campaign in campaigns:
        if rounds:
            # What goes wrong is counted.
            with silent("penny_cache", logging.CRITICAL), progress(name, rounds, as_json) as bar:
                results.append(campaign(lambda done, of, bar=bar: bar(done, 0)))  # type: ignore[misc]
    good = all(result.good for result in results)
    if as_json:
        emit({"seed": seed, "good": good, "campaigns": [result.as_dict() for result in results]})
    else:
        _show(results, seed, good)
    if not good:
        raise typer.Exit(1)
    for left in path.iterdir():
        shutil.rmtree(left)


def _show(results: list[Result], seed: int, good: bool) -> None:
    numbers = ("rounds", "s", "found right", "bad")
    lines = table("campaign", *numbers, "other outcomes", right=numbers)
    for one in results:
        outcomes = ", ".join(
            f"{count:,} {name}" for name, count in sorted(one.outcomes.items()) if name != "right"
        )
        lines.add_row(
            one.campaign, f"{one.rounds:,}", f"{one.seconds:,.0f}", f"{one.outcomes['right']:,}", f"{one.bad:,}",
            text(outcomes),
        )  # fmt: skip
    show(lines)
    for one in results:
        for sentence in one.faults[:10]:
            typer.echo(f"{one.campaign}: {sentence}")
    verdict = "The contract was kept." if good else f"Broken: {', '.join(sorted(BAD))} must be zero."
    typer.echo(f"{verdict} Seed {seed}.")
