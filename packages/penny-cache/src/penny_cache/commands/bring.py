"""`penny-cache import`: an archive into a store."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from penny_cache import namespace
from penny_cache.archive import Archive, ArchiveError, Brought
from penny_cache.archive import bring as bring_in
from penny_cache.commands.output import AsJson, emit, progress, silent
from penny_cache.commands.where import namespace_at, opened
from penny_cache.namespace import Namespace


def bring(
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="An archive of `export`; - for stdin.", show_default=False)
    ],
    path: Annotated[
        Path,
        typer.Argument(
            metavar="STORE",
            help="A namespace directory, or a root that holds one; with --new, any root.",
            show_default=False,
        ),
    ],
    new: Annotated[
        bool, typer.Option("--new", help="Make the archive's namespace in this root if it is not there.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Store the bundles of an archive.

    All are checked. Those that are there are passed over, so it can be done again.

    The namespace must be the one that the archive is from, field by field. What is damaged is left out, and said: exit
    status 1 then.
    """
    with _opened(file) as stream:
        archive = Archive(stream, "stdin" if file == "-" else file)
        here = _target(archive, path, new)
        owner = bytes.fromhex(here.identity.digest)
        total = archive.head.bundles if archive.head else 0
        with silent(), opened(here, True) as store, progress("importing", total, as_json) as tell:
            done = bring_in(archive, store, owner, tell)
    _report(archive, done, here, as_json)
    if archive.problems:
        raise typer.Exit(1)


def _target(archive: Archive, path: Path, new: bool) -> Namespace:
    if new:
        if archive.identity is None:
            raise ArchiveError(
                f"{archive.problems[0]} So its namespace is unknown; import it into one that is there, without --new."
            )
        return namespace.ensure(path, archive.identity)
    here = namespace_at(path)
    if archive.identity is not None and (differences := namespace.diff(here.identity, archive.identity)):
        listed = "; ".join(d.sentence("there", "archive") for d in differences)
        raise ArchiveError(
            f"The archive is of another namespace than {here.path}: {listed}. With --new it gets its own, in a root."
        )
    return here


def _report(archive: Archive, done: Brought, here: Namespace, as_json: bool) -> None:
    if as_json:
        emit(
            {
                "path": str(here.path), "stored": done.stored, "there": done.there, "lost": archive.lost,
                "problems": archive.problems,
            }
        )  # fmt: skip
        return
    typer.echo(f"Stored {done.stored:,} bundles in {here.path}. There already: {done.there:,}.")
    for problem in archive.problems:
        typer.echo(problem)


@contextmanager
def _opened(file: str) -> Iterator[BinaryIO]:
    if file == "-":
        yield sys.stdin.buffer
        return
    with Path(file).open("rb") as stream:
        yield stream
