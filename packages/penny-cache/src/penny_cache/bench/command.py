"""`penny-cache bench`."""

from __future__ import annotations

import enum
import json
import shutil
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from penny_cache.bench import bandwidth, millions
from penny_cache.bench.figures import Figures
from penny_cache.bench.geometry import GEOMETRIES
from penny_cache.commands import units
from penny_cache.engine import Engine, ThreadEngine
from penny_cache.engine.choose import default_engine
from penny_cache.engine.nixl import NixlEngine

app = typer.Typer(add_completion=False, rich_markup_mode=None)

Model = enum.Enum("Model", {name: name for name in GEOMETRIES}, type=str)  # type: ignore[misc]
_MODEL = Model("flash-next")


class What(enum.StrEnum):
    """Parts of the benchmark."""

    RESTORE = "restore"
    WRITE = "write"
    MILLIONS = "millions"


class Choice(enum.StrEnum):
    """Engines."""

    DEFAULT = "default"
    NIXL = "nixl"
    THREADS = "threads"


@app.command()
def bench(
    directory: Annotated[Path, typer.Argument(help="A directory on the drive to measure.")],
    what: Annotated[list[What], typer.Option("--what", help="Only this; may be given again.")] = list(What),  # noqa: B006
    model: Annotated[Model, typer.Option(help="Whose pages.")] = _MODEL,
    size: Annotated[str, typer.Option(help="Bytes of the chain that is moved.")] = "1G",
    turns: Annotated[
        int, typer.Option(min=1, help="Times that each figure is taken, beside the drive's own.")
    ] = 5,
    bundles: Annotated[int, typer.Option(min=1, help="In the store of many bundles.")] = 1_000_000,
    engine: Annotated[list[Choice], typer.Option("--engine", help="May be given again.")] = [Choice.DEFAULT],  # noqa: B006
    out: Annotated[Path | None, typer.Option(help="Write all figures to this JSON file.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Measure the store on a drive, beside what the drive itself gives (fio where it is installed).

    Makes a namespace of its own in DIRECTORY and removes it. Restoring and writing through need about three times SIZE
    of space; the store of many bundles is made of holes.
    """
    if not directory.is_dir():
        raise typer.BadParameter(f"{directory} is not a directory.", param_hint="DIRECTORY")
    payload, geometry = units.size(size), GEOMETRIES[model.value]
    needed = 3 * payload + (1 << 30)
    if shutil.disk_usage(directory).free < needed:
        raise typer.BadParameter(
            f"{directory} has {shutil.disk_usage(directory).free:,} bytes free, and {needed:,} are needed; "
            "give a smaller --size.",
            param_hint="--size",
        )
    console = Console(stderr=True, highlight=False)
    say = console.print
    figures = Figures(geometry, directory)
    made: dict[Choice, Callable[[], Engine]] = {
        Choice.DEFAULT: partial(default_engine, directory=directory),
        Choice.NIXL: NixlEngine,
        Choice.THREADS: ThreadEngine,
    }
    measures = {What.RESTORE: bandwidth.restore, What.WRITE: bandwidth.write_through}
    for one in what:
        for kind in engine if one in measures else []:
            with bandwidth.bench_namespace(directory, geometry) as here:
                say(f"{one.value}, engine {kind.value}")
                found = measures[one](here, geometry, payload, turns, made[kind], say)
                figures.paired[one.value, kind.value] = found
        if one is What.MILLIONS:
            with bandwidth.bench_namespace(directory, geometry) as here:
                figures.millions = millions.measure(here, geometry, bundles, say)
    chosen = [f"--what {one.value}" for one in what] + [f"--engine {one.value}" for one in engine]
    data = figures.data(
        f"penny-cache bench DIRECTORY --model {model.value} --size {size} --turns {turns} --bundles {bundles} "
        + " ".join(chosen)
    )
    if out is not None:
        out.write_text(json.dumps(data, indent=1) + "\n")
    if as_json:
        typer.echo(json.dumps(data, indent=1))
    else:
        for table in figures.tables():
            Console(highlight=False).print(table)
            typer.echo()
