"""`penny-bench submit`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penny_bench import __version__
from penny_bench.errors import BenchError
from penny_bench.report.files import check_folder, write_bytes
from penny_bench.submit.check import check as check_bytes
from penny_bench.submit.manifest import LICENSES, digest
from penny_bench.submit.pack import About, pack
from penny_bench.submit.private import findings


def submit(
    files: Annotated[list[Path] | None, typer.Argument(help="Results of run or decode.")] = None,
    out: Annotated[Path | None, typer.Option(help="The file to make, a .zip.")] = None,
    name: Annotated[str | None, typer.Option(help="Who submits, as it shall be published.")] = None,
    hardware_note: Annotated[
        str | None, typer.Option(help="What no result tells: power limit, cooling, bus.")
    ] = None,
    license_name: Annotated[
        str | None,
        typer.Option("--license", help=f"Leave to publish all of it: {' or '.join(LICENSES)}."),
    ] = None,
    redact: Annotated[
        bool, typer.Option("--redact", help="Take keys, paths and host names out of the copy.")
    ] = False,
    check: Annotated[Path | None, typer.Option(help="Verify this submission instead.")] = None,
) -> None:
    """Pack results into one file that can be published, or verify one.

    Nothing is sent anywhere. Exit status: 0 packed, or verified; 1 the check failed; 2 it could not be done.
    """
    if check:
        if files or out:
            raise BenchError("--check verifies one submission; leave the results and --out away.")
        _verify(check)
        return
    if not files or not out:
        raise BenchError("Give results and --out FILE.zip, or --check FILE.zip.")
    check_folder(out, "--out")
    if license_name and license_name not in LICENSES:
        raise BenchError(f"--license is {license_name!r}; use {' or '.join(LICENSES)}.")
    for option, text in (("--name", name), ("--hardware-note", hardware_note)):
        limit = 100 if option == "--name" else 1000
        if text and len(text) > limit:
            raise BenchError(f"{option} has {len(text)} characters; give at most {limit}.")
        for found in findings(text):
            raise BenchError(f"{option} holds {found.what}; leave it out, since all of it will be public.")
    data = pack(files, About(name, hardware_note, license_name), __version__, redact)
    write_bytes(out, data)
    typer.echo(
        f"{out}: {len(data):,} bytes, SHA-256 {digest(data)}. Look through its README.md before you send it."
    )
    if not license_name:
        typer.echo(f"Without --license {LICENSES[0]} nobody may publish it.")


def _verify(path: Path) -> None:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BenchError(f"Could not read {path}: {error.strerror}.") from error
    checked = check_bytes(data)
    for fault in checked.faults:
        typer.echo(f"{path.name}: {fault}")
    if checked.faults or not checked.manifest:
        raise typer.Exit(1)
    manifest = checked.manifest
    typer.echo(
        f"{path.name} is whole: {len(manifest.files) - 1} results, by {manifest.name or 'nobody named'}, "
        f"{manifest.license or 'no licence'}, SHA-256 {digest(data)}. Whether it was really measured so, no check can "
        f"tell."
    )
