"""The campaign of faults: a store on a drive that is full, broken, read-only, slow or lying, and among clocks and
processes that do not behave."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

from penny_cache.engine import ThreadEngine
from penny_cache.engine.faults import FaultEngine, Rule, read_only
from penny_cache.store import Stage, StoreError
from penny_cache.torture import mounts, neighbours
from penny_cache.torture.drawn import scratch
from penny_cache.torture.result import Progress, Result, silent
from penny_cache.torture.scene import Scene

FULL = [
    Rule(name, errno.ENOSPC, every=1, after_bytes=90_000, kept="start") for name in ("write", "write_file")
]
FAULTS: Mapping[str, Sequence[Rule]] = {
    "disk full": FULL,
    "disk full, no file can be made": [Rule("open", errno.ENOSPC, every=1, writing=True), *FULL],
    "EIO at one write": [Rule("write", errno.EIO, nth=2, kept="torn")],
    "EIO at every write": [Rule("write", errno.EIO, every=1, kept="torn")],
    "EIO at every write, and nothing goes": [
        Rule("write", errno.EIO, every=1, kept="start"), Rule("unlink", errno.EIO, every=1)
    ],
    "EIO at every sync": [Rule("sync", errno.EIO, every=1)],
    "EIO at one sync": [Rule("sync", errno.EIO, nth=2)],
    "EIO at the sync of names": [Rule("sync_directory", errno.EIO, every=1)],
    "EIO at the sync of names, and nothing goes": [
        Rule("sync_directory", errno.EIO, every=1), Rule("unlink", errno.EIO, every=1)
    ],
    "EIO at every read": [Rule("read", errno.EIO, every=1)],
    "EIO at index files": [Rule("write_file", errno.EIO, every=1, kept="start")],
    "EPERM at new files": [Rule("open", errno.EPERM, every=1, writing=True)],
    "EPERM at every change": read_only(errno.EPERM),
    "read-only from now on": read_only(errno.EROFS),
}  # fmt: skip
"""What an engine can play, by name."""


def faults(
    path: Path,
    seed: int,
    progress: Progress = silent,
    rules: Mapping[str, Sequence[Rule]] = FAULTS,
    around: bool = True,
    real: bool = True,
) -> Result:
    """Go through the table of faults.

    Each fault of an engine comes up three times: it comes and goes while the store is open, it is there when the store
    is closed, and when it is opened. What was stored before must be there, whatever is put meanwhile is stored or
    refused with an error that names path and reason, and afterwards the store works.

    Args:
        path: a directory for the case that there is no file system in memory, and for the mounts.
        seed: of pages and torn writes.
        progress: told of each case.
        rules: faults of an engine, by name.
        around: whether to go through slow and lying drives, other processes, clocks, identities and users besides.
        real: whether to fill and remount file systems besides, where this machine lets us.
    """
    result = Result("faults", seed)
    started = time.monotonic()
    with scratch(path) as memory:
        cases = [*_engines(memory, result, rules)]
        cases += _surroundings(memory, result) if around else []
        cases += _mounts(memory, result) if real else []
        for number, case in enumerate(cases):
            with result.judging(f"case {number}"):
                scene = case()
                if scene is not None:
                    result.table.append(scene.row)
            result.rounds += 1
            progress(number + 1, len(cases))
    result.seconds = time.monotonic() - started
    return result


def _engines(
    root: Path, result: Result, faults: Mapping[str, Sequence[Rule]]
) -> Iterator[Callable[[], Scene | None]]:
    for number, (name, rules) in enumerate(faults.items()):
        for when in (_comes_and_goes, _while_closing, _while_opening):
            yield partial(when, name, rules, root / f"{when.__name__[1:]}-{number}", result)


def _surroundings(root: Path, result: Result) -> Iterator[Callable[[], Scene | None]]:
    for number, case in enumerate((_slow, _lying, *neighbours.CASES)):
        yield partial(case, root / f"around-{number}", result)


def _mounts(root: Path, result: Result) -> Iterator[Callable[[], Scene | None]]:
    for number, case in enumerate(mounts.CASES):
        yield partial(case, root / f"mount-{number}", result)


def _comes_and_goes(name: str, rules: Sequence[Rule], root: Path, result: Result) -> Scene:
    scene = Scene(f"{name}, comes and goes", root, result)
    engine = FaultEngine(ThreadEngine(2), seed=result.seed)
    with scene.hearing(), scene.open(engine) as store:
        scene.put(store, 12)
        engine.set(rules)
        # More than a line of the log holds, and several segments.
        errors = scene.put(store, 12) + scene.put(store, 12, Stage.WRITTEN)
        reads = any(rule.operation == "read" for rule in rules)
        scene.judge(store, "while it is there", missing=reads)
        scene.expect(bool(engine.hits), "the fault never came")
        engine.set()
        scene.well_again(store)
        scene.judge(store, "when it is gone", missing=reads)
    _told(scene, rules, errors)
    scene.reopened("opened again")
    return scene


def _while_closing(name: str, rules: Sequence[Rule], root: Path, result: Result) -> Scene:
    scene = Scene(f"{name}, when closing", root, result)
    engine = FaultEngine(ThreadEngine(2), seed=result.seed)
    with scene.hearing():
        with scene.open(engine) as store:
            scene.put(store, 12)
            engine.set(rules)
            scene.put(store, 4)
        scene.reopened("opened again")
    return scene


def _while_opening(name: str, rules: Sequence[Rule], root: Path, result: Result) -> Scene:
    scene = Scene(f"{name}, when opening", root, result)
    with scene.open() as store:
        scene.put(store, 16)
    # As a kill leaves it: the last segment has no index file, and is walked.
    last = max(scene.here.path.glob("*.index"))
    last.rename(last.with_suffix(".unfinished"))
    with scene.hearing():
        engine = FaultEngine(ThreadEngine(2), rules, seed=result.seed)
        try:
            with scene.open(engine) as store:
                scene.judge(store, "opened with it", missing=True)
        except StoreError as error:
            scene.row["said"] = str(error)
            scene.expect(str(scene.here.path) in str(error), f"the error names no path: {error}")
        scene.reopened("opened again")
    return scene


def _told(scene: Scene, rules: Sequence[Rule], errors: Sequence[str]) -> None:
    reasons = {os.strerror(rule.error) for rule in rules}
    for error in errors:
        named = str(scene.here.path) in error and (
            "sync of its segment" in error or any(r in error for r in reasons)
        )
        scene.expect(named, f"an error does not name path and reason: {error}")
    refusals = [line for line in scene.said if "not stored" in line]
    scene.expect(not errors or scene.heard(reasons), "no line of the log names path and reason")
    scene.expect(len(refusals) <= 3, f"the log was flooded: {len(refusals)} lines for {len(errors)} bundles")


def _slow(root: Path, result: Result) -> Scene:
    """A full queue refuses at once, and nothing fails."""
    scene = Scene("slow drive", root, result)
    engine = FaultEngine(ThreadEngine(2), [Rule("write", delay=0.05, every=1)])
    with scene.open(engine) as store:
        errors = scene.put(store, 60, Stage.WRITTEN, wait=0.0)
        scene.expect(bool(errors), "the queue never filled")
        scene.expect(
            all(error.startswith("busy") for error in errors), "a bundle was refused for another reason"
        )
        engine.set()
        scene.well_again(store)
    scene.reopened("opened again")
    return scene


def _lying(root: Path, result: Result) -> Scene:
    """A drive that says that it wrote, and tore every third write: bundles may be missing, none is wrong."""
    scene = Scene("drive that lies", root, result)
    engine = FaultEngine(ThreadEngine(2), [Rule("write", nth=3, every=3, kept="torn")], seed=result.seed)
    with scene.hearing():
        with scene.open(engine) as store:
            scene.put(store, 30)
            scene.judge(store, "at once", missing=True)
        with scene.open() as store:
            scene.judge(store, "opened again", missing=True)
    return scene
