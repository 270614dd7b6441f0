"""Restoring a chain and writing one through, each paired with the drive's own figure of the same minute."""

from __future__ import annotations

import mmap
import os
import resource
import shutil
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from penny_cache import namespace
from penny_cache.bench import raw
from penny_cache.bench.geometry import Geometry, filled
from penny_cache.engine import Engine
from penny_cache.namespace import Identity, Namespace
from penny_cache.store import Digest, Settings, Stage, Store, chain, open_store
from penny_cache.store.records import BLOCK, blocks

Say = Callable[[str], None]
MakeEngine = Callable[[], Engine]


@dataclass(frozen=True)
class Paired:
    """A figure and the drive's own one, in turns.

    Attributes:
        payload: bytes of the parts that were moved.
        ours: bytes/s of payload, one for each turn.
        drives: bytes/s of the drive right before and after each turn, their mean, at the best depth.
        depth: that depth.
        by: program of the drive's figure.
        notes: figures besides, by name.
    """

    payload: int
    ours: tuple[float, ...]
    drives: tuple[float, ...]
    depth: int
    by: str
    notes: dict[str, float]

    @property
    def shares(self) -> list[float]:
        """Ours over the drive's, turn by turn."""
        return [a / b for a, b in zip(self.ours, self.drives, strict=True)]

    @property
    def share(self) -> float:
        """Median of the shares."""
        return statistics.median(self.shares)

    @property
    def median(self) -> float:
        """Of ours, bytes/s."""
        return statistics.median(self.ours)

    @property
    def drive_median(self) -> float:
        """Of the drive's, bytes/s."""
        return statistics.median(self.drives)


def keys_of(pages: int) -> list[Digest]:
    """A chain of so many keys."""
    return list(chain(page.to_bytes(8, "little") for page in range(pages)))


@contextmanager
def bench_namespace(root: Path, geometry: Geometry) -> Iterator[Namespace]:
    """A namespace of this benchmark's own under `root`, removed afterwards."""
    identity = Identity.of("bench", {"geometry": geometry.name, "process": os.getpid(), "at": time.time_ns()})
    made = namespace.create(root, identity)
    try:
        yield made
    finally:
        shutil.rmtree(made.path)


def pages_for(geometry: Geometry, size: int) -> int:
    """Pages of a chain of `size` bytes with a snapshot at its end."""
    return max(1, (size - geometry.snapshot_bytes) // geometry.page_bytes)


def write_chain(store: Store, geometry: Geometry, pages: int, prefix: list[Digest]) -> float:
    """Put a chain as its pages come, wait until all of it is durable; seconds."""
    for size in (*geometry.page.values(), *geometry.snapshot.values()):
        filled(size, 0)  # which makes the bytes
    start = time.perf_counter()
    ticket = None
    for i in range(pages):
        end = i == pages - 1
        sizes = {**geometry.page, **(geometry.snapshot if end else {})}
        parts = {name: filled(size, i) for name, size in sizes.items()}
        wanted = Stage.DURABLE if end else Stage.WRITTEN
        ticket = store.put(prefix[i], parts, prefix[i - 1] if i else None, wanted, 60)
    assert ticket is not None
    ticket.wait()
    return time.perf_counter() - start


def write_through(
    here: Namespace, geometry: Geometry, size: int, turns: int, make: MakeEngine, say: Say
) -> Paired:
    """Chains of about `size` bytes as a producer that is never slow puts them; the last bundle is durable."""
    pages = pages_for(geometry, size)
    payload = pages * geometry.page_bytes + geometry.snapshot_bytes
    sweep = raw.best_write(here.path, size)
    best, ours, drives = sweep[0], [], []
    say(f"raw write: {best.rate / 1e6:,.0f} MB/s at depth {best.depth} by {best.by}")
    resident = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    for turn in range(turns):
        before_turn = raw.write(here.path / ".raw-write", size, best.depth).rate
        with open_store(here, settings=Settings(), engine=make()) as store:
            keys = list(
                chain([turn.to_bytes(8, "little"), *(i.to_bytes(8, "little") for i in range(pages))])
            )[1:]
            ours.append(payload / write_chain(store, geometry, pages, keys))
        drives.append((before_turn + raw.write(here.path / ".raw-write", size, best.depth).rate) / 2)
        say(f"write-through: {ours[-1] / 1e6:,.0f} MB/s beside {drives[-1] / 1e6:,.0f} raw")
        with open_store(here, engine=make()) as store:  # all of it is sealed by now
            store.collect(1 << 62)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - resident) * 1024
    notes = {"write_memory": float(Settings().write_memory), "peak_memory_grown": float(grown)}
    return Paired(payload, tuple(ours), tuple(drives), best.depth, best.by, notes)


def restore(here: Namespace, geometry: Geometry, size: int, turns: int, make: MakeEngine, say: Say) -> Paired:
    """A chain of about `size` bytes into page-aligned host memory, verified, from a store that was just opened."""
    pages = pages_for(geometry, size)
    payload = pages * geometry.page_bytes + geometry.snapshot_bytes
    keys = keys_of(pages)
    with open_store(here, engine=make()) as store:
        write_chain(store, geometry, pages, keys)
    segments = sorted(here.path.glob("*.segment"))
    forget_cached(segments)
    sweep = raw.best_read(segments)
    best, ours, drives, opened, matched = sweep[0], [], [], [], []
    say(f"raw read: {best.rate / 1e6:,.0f} MB/s at depth {best.depth} by {best.by}")
    room = pages * sum(map(_room, geometry.page.values())) + sum(map(_room, geometry.snapshot.values()))
    with mmap.mmap(-1, room) as memory:
        for at in range(0, room, BLOCK):
            memory[at] = 1  # a host pool's pages are there before anything is loaded
        hosts = _hosts(memoryview(memory), geometry, pages)
        for _ in range(turns):
            before_turn = raw.read(segments, best.depth).rate
            start = time.perf_counter()
            with open_store(here, writable=False, engine=make()) as store:
                opened.append(time.perf_counter() - start)
                start = time.perf_counter()
                if store.match(keys) != pages:
                    raise RuntimeError("The chain is not there.")
                matched.append(time.perf_counter() - start)
                start = time.perf_counter()
                count = sum(1 for _ in store.restore(keys, lambda page, name, size: hosts[page][name]))
                ours.append(payload / (time.perf_counter() - start))
                if count != pages:
                    raise RuntimeError(f"{count} of {pages} bundles came.")
            drives.append((before_turn + raw.read(segments, best.depth).rate) / 2)
            say(f"restore: {ours[-1] / 1e6:,.0f} MB/s beside {drives[-1] / 1e6:,.0f} raw")
        wrong = [n for i, p in enumerate(hosts) for n, view in p.items() if view != filled(view.nbytes, i)]
        if wrong:
            raise RuntimeError(f"Wrong bytes in {sorted(set(wrong))}.")
        hosts.clear()
    notes = {
        "open_s": statistics.median(opened),
        "match_s": statistics.median(matched),
        "pages": float(pages),
    }
    return Paired(payload, tuple(ours), tuple(drives), best.depth, best.by, notes)


def _room(size: int) -> int:
    return blocks(size) * BLOCK


def _hosts(memory: memoryview, geometry: Geometry, pages: int) -> list[dict[str, memoryview]]:
    """Memory for each part, by position and name, each at a whole block."""
    found, at = [], 0
    for page in range(pages):
        parts = dict(geometry.page) | (dict(geometry.snapshot) if page == pages - 1 else {})
        views = {}
        for name, size in parts.items():
            views[name] = memory[at : at + size]
            at += _room(size)
        found.append(views)
    return found


def forget_cached(paths: list[Path]) -> None:
    """Have the page cache forget files, so that none of them is read from memory."""
    for path in paths:
        file = os.open(path, os.O_RDONLY)
        try:
            os.fsync(file)
            os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(file)
