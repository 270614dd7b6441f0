"""The store of one namespace: put bundles, find the longest chain, load it."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import TracebackType

import numpy as np

from penny_cache.engine import Engine, ThreadEngine, Transfer, Transferred
from penny_cache.namespace import Namespace
from penny_cache.store import files
from penny_cache.store.collector import Collector, allocated
from penny_cache.store.errors import StoreError
from penny_cache.store.image import Bundle, Layout, places
from penny_cache.store.index import Rows
from penny_cache.store.keys import digest
from penny_cache.store.memory import Buffer, Pool
from penny_cache.store.records import BLOCK, NO_KEY
from penny_cache.store.records import Buffer as Data
from penny_cache.store.recover import check_image, recover
from penny_cache.store.ticket import Stage, Ticket
from penny_cache.store.writer import Writer

logger = logging.getLogger(__name__)

READ_ONLY = "{} is open for reading only."
Key = str | bytes
MIB = 1 << 20


@dataclass(frozen=True)
class Settings:
    """How a store uses memory and disk.

    Attributes:
        segment_bytes: size of a segment file; what a walk after a kill may have to read.
        write_memory: bytes that wait to be written, at most.
        read_memory: bytes of bundles that are being loaded, at most.
        budget: bytes that the store may take on the drive; None for no limit. A segment takes a quarter of it at most.
        free_floor: bytes that stay free on its file system.
        snapshots: names of parts that a prefix needs at its end only; inside a path they are given up first.
    """

    segment_bytes: int = 1024 * MIB
    write_memory: int = 256 * MIB
    read_memory: int = 256 * MIB
    budget: int | None = None
    free_floor: int = 0
    snapshots: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if self.budget is not None and self.budget < 16 * BLOCK:
            raise ValueError(
                f"A budget of {self.budget:,} bytes holds no bundle; give {16 * BLOCK:,} or more."
            )

    @property
    def segment_size(self) -> int:
        """Bytes of a segment file, with regard to the budget; whole blocks."""
        most = self.segment_bytes if self.budget is None else min(self.segment_bytes, self.budget // 4)
        return most // BLOCK * BLOCK


@dataclass(frozen=True)
class Loaded:
    """One bundle of a chain as it comes from the drive, verified.

    Attributes:
        position: of its key in the request.
        parts: payloads by name; they are gone when the next bundle is asked for.
    """

    position: int
    parts: Mapping[str, memoryview]


@dataclass(frozen=True)
class Survey:
    """What a store holds at one moment.

    Attributes:
        rows: one for each bundle that is there, a copy, in no order; see `index.ROW`.
        layouts: names and bytes of parts, by the number that rows have.
    """

    rows: Rows
    layouts: Sequence[Layout]


class Store:
    """The bundles of one namespace. Use `open_store`; a context manager. Every method may be called from any thread."""

    def __init__(self, namespace: Namespace, engine: Engine, settings: Settings, writable: bool) -> None:
        self.path = namespace.path
        self._namespace = bytes.fromhex(namespace.identity.digest)
        self._engine, self._settings = engine, settings
        self._guard = threading.RLock()
        self._files: dict[int, int] = {}
        self._reading = Pool(settings.read_memory)
        self._lock = files.lock(self.path) if writable else None
        try:
            self.recovered = recover(self.path, self._namespace, engine, repair=writable)
        except BaseException:
            if self._lock is not None:
                os.close(self._lock)
            raise
        self._index = self.recovered.index
        self._damaged = 0
        self._collector = Collector(
            self.path, self._namespace, engine, index=self._index, guard=self._guard, budget=settings.budget,
            free_floor=settings.free_floor, snapshots=settings.snapshots, open_segments=self._open_segments,
            forget_file=self._forget_file,
        )  # fmt: skip
        self._writer = (
            Writer(
                self.path, self._namespace, engine, self._index, self._guard,
                first_segment=max(self.recovered.segments, default=0) + 1, first_sequence=self.recovered.sequence,
                segment_bytes=settings.segment_size, memory=settings.write_memory,
                make_room=self._collector.make_room,
            )
            if writable
            else None
        )  # fmt: skip

    def __enter__(self) -> Store:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __len__(self) -> int:
        """Bundles that are there."""
        with self._guard:
            return len(self._index)

    @property
    def damaged(self) -> int:
        """Bundles that were found damaged while loading, and are no longer there."""
        return self._damaged

    @property
    def evicted(self) -> int:
        """Bundles and snapshots that were given up for space."""
        return self._collector.evicted

    @property
    def allocated(self) -> int:
        """Bytes that the store's files take on the drive."""
        return allocated(self.path)

    def survey(self) -> Survey:
        """A copy of the index, for tables and for reading every bundle (`load([Digest(row["key"])])`)."""
        with self._guard:
            return Survey(self._index.rows[self._index.alive].copy(), tuple(self._index.layouts))

    def collect(self, size: int) -> int:
        """Give up bundles worth about `size` bytes; how many bytes came free.

        Raises:
            StoreError: the store is open for reading.
        """
        if self._writer is None:
            raise StoreError(READ_ONLY.format(self.path))
        return self._collector.collect(size)

    @contextmanager
    def pinned(self, chain: Sequence[Key]) -> Iterator[int]:
        """Keep the bundles of a chain that are there from being given up; yields how many."""
        keys = [digest(key) for key in chain]
        with self._guard:
            rows = self._chain(keys)
            self._collector.pinned.update(rows)
        try:
            yield len(rows)
        finally:
            with self._guard:
                self._collector.pinned.subtract(rows)

    def close(self) -> None:
        """Write what waits, seal the segment, let others write."""
        if self._writer is not None:
            self._writer.close()
        with self._guard:
            for file in self._files.values():
                self._engine.close(file)
            self._files.clear()
        self._engine.shutdown()
        if self._lock is not None:
            os.close(self._lock)
            self._lock = None

    def put(
        self,
        key: Key,
        parts: Mapping[str, Data],
        parent: Key | None = None,
        wanted: Stage = Stage.WRITTEN,
        wait: float = 0.0,
    ) -> Ticket:
        """Store a bundle. Returns when its parts were copied; the ticket follows it from there.

        Args:
            key: of the bundle. One that is there already is replaced.
            parts: what the boundary adds, by name: 1 to 1,024 contiguous buffers.
            parent: key of the bundle before it on its chain; None for the first.
            wanted: how far the ticket's `wait` waits. `DURABLE` costs a sync, which bundles put at the same time share.
            wait: seconds to wait for room in the queue.

        Raises:
            BundleRefused: it can never be stored.
            StoreBusy: there was no room in the queue.
            StoreError: the store is open for reading.
        """
        if self._writer is None:
            raise StoreError(READ_ONLY.format(self.path))
        return self._writer.put(
            digest(key), parts, NO_KEY if parent is None else digest(parent), wanted, wait
        )

    def match(self, chain: Sequence[Key]) -> int:
        """How many bundles from the start of a chain are there, each with the one before as its parent."""
        keys = [digest(key) for key in chain]
        with self._guard:
            return len(self._chain(keys))

    def load(self, chain: Sequence[Key]) -> Iterator[Loaded]:
        """Load a chain in order, from its first bundle to the last that is there and whole.

        A bundle that turns out to be damaged ends the chain there and is not found again.
        """
        keys = [digest(key) for key in chain]
        with self._guard:
            rows = self._chain(keys)
            self._index.touch(np.array(rows, np.int64))
            self._collector.pinned.update(rows)
            jobs = [self._job(row) for row in rows]
        ahead: list[tuple[Buffer, Transferred]] = []
        position = 0
        try:
            while position < len(jobs):
                while position + len(ahead) < len(jobs) and (
                    started := self._start(jobs[position + len(ahead)], not ahead)
                ):
                    ahead.append(started)
                buffer, done = ahead.pop(0)
                job = jobs[position]
                view = buffer.view
                try:
                    damage = self._damage(done, view, job)
                    if damage:
                        self._drop(rows[position], damage)
                        return
                    yield Loaded(
                        position, {name: view[at : at + size] for name, _, at, size in places(job.layout)}
                    )
                finally:
                    buffer.close()
                position += 1
        finally:
            for buffer, done in ahead:
                done.exception()
                buffer.close()
            with self._guard:
                self._collector.pinned.subtract(rows)

    def _open_segments(self) -> set[int]:
        return self._writer.open_segments() if self._writer is not None else set()

    def _chain(self, keys: Sequence[bytes]) -> list[int]:
        found = self._index.find(keys).tolist()
        rows: list[int] = []
        before = NO_KEY
        for key, row in zip(keys, found, strict=True):
            # The first may hang on a bundle that the caller has elsewhere.
            if row < 0 or (rows and self._index.rows[row]["parent"].tobytes() != before):
                break
            rows.append(row)
            before = key
        return rows

    def _job(self, row: int) -> _Job:
        found = self._index.rows[row]
        bundle = Bundle(
            self._namespace, found["key"].tobytes(), found["parent"].tobytes(), int(found["sequence"])
        )
        return _Job(
            int(found["segment"]), int(found["offset"]), int(found["blocks"]), bundle, self._index.layout(row)
        )

    def _start(self, job: _Job, needed: bool) -> tuple[Buffer, Transferred] | None:
        size = job.blocks * BLOCK
        if size > self._reading.limit:
            raise StoreError(
                f"A bundle takes {size:,} bytes and read_memory is {self._reading.limit:,}; open the store with more."
            )
        buffer = self._reading.take(size, wait=60.0 if needed else 0.0)
        if buffer is None:
            if needed:
                raise StoreError(
                    f"No room to read {size:,} bytes came free within a minute; other loads hold read_memory, so end "
                    "them or open the store with more."
                )
            return None
        return buffer, self._engine.read(
            Transfer(self._file(job.segment), job.offset * BLOCK, [buffer.view[:size]])
        )

    def _file(self, segment: int) -> int:
        with self._guard:
            if segment not in self._files:
                self._files[segment] = self._engine.open(files.segment_path(self.path, segment), os.O_RDONLY)
            return self._files[segment]

    def _forget_file(self, segment: int) -> None:
        with self._guard:
            file = self._files.pop(segment, None)
        if file is not None:
            self._engine.close(file)

    def _damage(self, done: Transferred, view: memoryview, job: _Job) -> str:
        error = done.exception()
        if isinstance(error, OSError):
            return f"it cannot be read ({error.strerror})"
        if error is not None:
            raise error
        return check_image(view, job.bundle, job.layout)

    def _drop(self, row: int, damage: str) -> None:
        with self._guard:
            self._index.remove(np.array([row], np.int64))
            self._damaged += 1
        found = self._index.rows[row]
        logger.warning(
            "A bundle of %s is damaged and forgotten: segment %d, block %d: %s.",
            self.path, found["segment"], found["offset"], damage,
        )  # fmt: skip


@dataclass(frozen=True)
class _Job:
    segment: int
    offset: int
    blocks: int
    bundle: Bundle
    layout: Layout


def open_store(
    namespace: Namespace,
    *,
    writable: bool = True,
    settings: Settings | None = None,
    engine: Engine | None = None,
) -> Store:
    """Open the store in a namespace's directory; an empty directory is an empty store.

    Args:
        namespace: from `penny_cache.namespace.ensure` or `open`.
        writable: whether to become its writer, of which a store has one; any number of processes may read.
        settings: memory and sizes.
        engine: of the store's own from then on; threads by default.

    Raises:
        StoreLocked: another process writes to it.
        StoreVersion: it is of another version of the format.
        StoreError: the directory is not usable.
    """
    files.check_directory(namespace.path)
    return Store(namespace, engine or ThreadEngine(), settings or Settings(), writable)
