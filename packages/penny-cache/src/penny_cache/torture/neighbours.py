"""Faults of what is around a store: another writer, other clocks, other identities, another user."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

from penny_cache import namespace
from penny_cache.namespace import Identity, NamespaceMismatch, NamespaceMissing
from penny_cache.store import StoreLocked, open_store
from penny_cache.torture.inline import InlineEngine
from penny_cache.torture.result import Result
from penny_cache.torture.scene import SETTINGS, Scene

YEARS = 10 * 365 * 86_400


def two_writers(root: Path, result: Result) -> Scene:
    """Another process is the writer: an error that names it, readers read; it is killed: its lock is gone with it."""
    scene = Scene("two writers", root, result)
    with scene.open() as store:
        scene.put(store, 12)
    other = _process("hold", str(scene.here.path))
    assert other.stdout is not None
    other.stdout.readline()
    try:
        scene.open().close()
        scene.bad("broken", "two processes write to one store")
    except StoreLocked as error:
        scene.row["said"] = str(error)
        scene.expect(f"process {other.pid} " in str(error), f"the error does not name the process: {error}")
    with scene.open(writable=False) as reader:
        scene.judge(reader, "a reader beside a writer")
    other.kill()
    other.communicate()
    scene.reopened("the other one was killed")
    return scene


def clock_jumps(root: Path, result: Result) -> Scene:
    """The clock goes back ten years and on twenty, while a process works and between openings."""
    scene = Scene("clock jumps", root, result)
    now = time.time
    with scene.open() as store:
        scene.put(store, 8)
        try:
            for offset in (-YEARS, YEARS):
                time.time = lambda offset=offset: now() + offset  # type: ignore[misc]
                scene.put(store, 8)
                store.collect(20_000)
                scene.judge(store, f"{offset:+} s")
        finally:
            time.time = now
    for file, when in zip(sorted(scene.here.path.iterdir()), (0, 4_102_444_800, 86_400) * 100, strict=False):
        os.utime(file, (when, when))
    scene.reopened("with the files' times changed")
    return scene


def page_size(root: Path, result: Result) -> Scene:
    """Another page size is another identity: an error that names it, a store of its own, and misses."""
    scene = Scene("page size changes", root, result)
    with scene.open() as store:
        scene.put(store, 12)
    other = Identity.of("torture", {"page": 128})
    try:
        namespace.open(root, other)
        scene.bad("broken", "a namespace of another page size was opened")
    except NamespaceMissing as error:
        scene.row["said"] = str(error)
        scene.expect("page" in str(error), f"the error does not name the field: {error}")
    made = namespace.ensure(root, other)
    with open_store(made, settings=SETTINGS, engine=InlineEngine()) as store:
        scene.expect(len(store) == 0, "pages of one size are found in the store of another")
    for file in scene.here.path.glob("*.[si]*"):
        shutil.copy(file, made.path)
    with open_store(made, settings=SETTINGS, engine=InlineEngine()) as store:
        scene.expect(len(store) == 0, "segments of another identity are read")
    shutil.copy(scene.here.path / namespace.MANIFEST_NAME, made.path)
    try:
        namespace.open(root, other)
        scene.bad("broken", "a manifest of another identity was taken")
    except NamespaceMismatch as error:
        scene.expect(
            "64" in str(error) and "128" in str(error), f"the error does not name the values: {error}"
        )
    scene.reopened("with the first page size again")
    return scene


def not_writable(root: Path, result: Result) -> Scene:
    """CP-11: a directory that this process may not write to is an error at once that names it, and can be read."""
    scene = Scene("directory not writable", root, result)
    with scene.open() as store:
        scene.put(store, 12)
    files = [scene.here.path, *scene.here.path.iterdir()]
    nobody = 65_534 if os.geteuid() == 0 else os.geteuid()
    ways = [root, root.parent] if os.geteuid() == 0 else []
    for file in [*files, *ways]:
        os.chown(file, nobody, -1)
    (scene.here.path / "writer.lock").unlink()
    scene.here.path.chmod(0o555)
    answer = _process("read", str(scene.here.path), str(nobody)).communicate()[0].splitlines()
    said, length = (answer[0], int(answer[1])) if len(answer) == 2 else ("", -1)
    scene.here.path.chmod(0o700)
    for file in [*scene.here.path.iterdir(), scene.here.path, *ways]:
        os.chown(file, os.geteuid(), -1)
    scene.row["said"] = said
    scene.expect(str(scene.here.path) in said and "Permission denied" in said, f"it said {said!r}")
    scene.expect(
        length == len(scene.ledger.kept), f"a reader finds {length} of {len(scene.ledger.kept)} bundles"
    )
    scene.reopened("writable again")
    return scene


CASES: tuple[Callable[[Path, Result], Scene], ...] = (two_writers, clock_jumps, page_size, not_writable)


def _process(*arguments: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "penny_cache.torture.neighbour", *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
