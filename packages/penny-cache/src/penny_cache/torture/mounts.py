"""Faults of real file systems: small ones that are filled, and made read-only. Root only."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from penny_cache.store import StoreError
from penny_cache.torture.result import Result
from penny_cache.torture.scene import Scene

MIB = 1 << 20


class Unavailable(Exception):  # noqa: N818
    """This machine does not let us."""


@contextmanager
def mounted(at: Path, kind: str) -> Iterator[Path]:
    """A file system of a few MiB, `tmpfs` or `ext4` in a file; gone afterwards. Raises Unavailable."""
    if os.geteuid() != 0:
        raise Unavailable("only root may mount")
    at.mkdir(parents=True)
    if kind == "ext4":
        image = at.with_suffix(".image")
        with image.open("wb") as file:
            file.truncate(8 * MIB)
        _do(["mkfs.ext4", "-q", "-F", "-O", "^has_journal", str(image)])
        _do(["mount", "-o", "loop", str(image), str(at)])
    else:
        _do(["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(at)])
    try:
        yield at
    finally:
        _do(["umount", str(at)])


def _do(command: Sequence[str]) -> None:
    if shutil.which(command[0]) is None:
        raise Unavailable(f"there is no {command[0]}")
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"{command[0]}: {done.stderr.strip()}")


def _full(kind: str) -> Callable[[Path, Result], Scene | None]:
    def case(root: Path, result: Result) -> Scene | None:
        """Others fill the file system: old bundles are given up or new ones refused, until there is room again."""
        try:
            with mounted(root, kind) as at:
                scene = Scene(f"disk full, {kind}", at / "store", result)
                with scene.hearing():
                    with scene.open() as store:
                        scene.put(store, 12)
                        ballast = at / "ballast"
                        _fill(ballast)
                        scene.put(store, 60)
                        scene.judge(store, "while it is full")
                        ballast.unlink()
                        scene.well_again(store)
                        scene.judge(store, "when there is room again")
                        _fill(ballast)
                    ballast.unlink()
                    scene.reopened("after it was closed on a full disk")
                return scene
        except Unavailable as error:
            result.notes[f"{kind} not mounted: {error}"] += 1
            return None

    return case


def _fill(path: Path) -> None:
    """Take all space that is left."""
    with path.open("wb", buffering=0) as file:
        for size in (MIB, 4096):
            try:
                while True:
                    file.write(bytes(size))
            except OSError:
                continue


def _read_only(kind: str) -> Callable[[Path, Result], Scene | None]:
    def case(root: Path, result: Result) -> Scene | None:
        """Remounted read-only: a writer is told, a reader reads; writable again, all goes on."""
        try:
            with mounted(root, kind) as at:
                scene = Scene(f"read-only remount, {kind}", at / "store", result)
                with scene.hearing():
                    with scene.open() as store:
                        scene.put(store, 12)
                    _do(["mount", "-o", "remount,ro", str(at)])
                    try:
                        scene.open().close()
                        scene.bad("broken", "a writer opened a store that it cannot write to")
                    except StoreError as error:
                        scene.row["said"] = str(error)
                        scene.expect(str(scene.here.path) in str(error), f"the error names no path: {error}")
                    with scene.open(writable=False) as reader:
                        scene.judge(reader, "read-only")
                    _do(["mount", "-o", "remount,rw", str(at)])
                    scene.reopened("writable again")
                return scene
        except Unavailable as error:
            result.notes[f"{kind} not mounted: {error}"] += 1
            return None

    return case


CASES: tuple[Callable[[Path, Result], Scene | None], ...] = (
    _full("tmpfs"), _full("ext4"), _read_only("tmpfs"), _read_only("ext4")
)  # fmt: skip
