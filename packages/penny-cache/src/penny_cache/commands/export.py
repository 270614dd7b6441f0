"""`penny-cache export`: bundles into one file."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from penny_cache.archive import Written, write
from penny_cache.commands.output import AsJson, emit, progress
from penny_cache.commands.units import shown
from penny_cache.commands.where import StorePath, reading
from penny_cache.durable import sync_directory
from penny_cache.store import Store, StoreError


def export(
    path: StorePath,
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="The archive to make; - for stdout.", show_default=False)
    ],
    chain: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KEY",
            help="Only the chain that ends with this bundle: its first digits. May be repeated.",
        ),
    ] = None,
    force: Annotated[bool, typer.Option("--force", help="Replace the file if it is there.")] = False,
    as_json: AsJson = False,
) -> None:
    """Copy bundles to one file, for `import`.

    Works beside a server. Exit status 1 if some bundles could not be read.
    """
    if file == "-" and as_json:
        raise typer.BadParameter("--json and the archive cannot both go to stdout.")
    target = nullcontext(sys.stdout.buffer) if file == "-" else _new(Path(file), force)
    with reading(path) as (store, here):
        ends = None if chain is None else [_key(store, digits) for digits in chain]
        with target as stream, progress("writing", 100, as_json) as tell:
            done = write(store, here, stream, ends=ends, progress=lambda n, of: tell(100 * n // of, n))
    _report(done, file, as_json)
    if done.lost:
        raise typer.Exit(1)


def _report(done: Written, file: str, as_json: bool) -> None:
    if as_json:
        emit({"bundles": done.bundles, "bytes": done.size, "lost": done.lost})
    else:
        where = "stdout" if file == "-" else file
        typer.echo(f"Wrote {done.bundles:,} bundles, {shown(done.size)}, to {where}.", err=file == "-")
        if done.lost:
            typer.echo(f"Left out, for they could not be read: {done.lost:,}.", err=file == "-")


def _key(store: Store, digits: str) -> bytes:
    keys: list[bytes] = [key.tobytes() for key in store.survey().rows["key"]]
    found = [key for key in keys if key.hex().startswith(digits.lower())]
    if len(found) != 1:
        raise StoreError(
            f"{len(found)} bundles of {store.path} have a key that starts with {digits}; give the key of one."
        )
    return found[0]


@contextmanager
def _new(path: Path, force: bool) -> Iterator[BinaryIO]:
    """A file that has its name once it is whole."""
    if path.exists() and not force:
        raise StoreError(f"{path} is there already; --force replaces it.")
    temporary = path.with_name(f".{path.name}.unfinished")
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
    with os.fdopen(os.open(temporary, flags, 0o600), "wb") as stream:
        try:
            yield stream
            stream.flush()
            os.fsync(stream.fileno())
        except BaseException:
            temporary.unlink(missing_ok=True)
            raise
    os.replace(temporary, path)
    sync_directory(path.parent)
