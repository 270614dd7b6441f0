"""The store of one namespace: put bundles, find the longest chain, load it."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Generator, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import TypeVar

import numpy as np

from penny_cache.engine import Engine
from penny_cache.namespace import Namespace, lease
from penny_cache.store import files, snapshot
from penny_cache.store.collector import Collector, allocated
from penny_cache.store.complaints import Complaints
from penny_cache.store.counters import Counters, Tally
from penny_cache.store.errors import CLOSED, BundleRefused, StoreBusy, StoreError
from penny_cache.store.given import Loaded, Survey
from penny_cache.store.handles import Handles
from penny_cache.store.image import REMOVED, Bundle
from penny_cache.store.index import Index
from penny_cache.store.keys import digest, digests
from penny_cache.store.landing import Place
from penny_cache.store.pins import Pins
from penny_cache.store.reading import SHORTAGE, Broken, Reader, Spot
from penny_cache.store.records import BLOCK, NO_KEY
from penny_cache.store.records import Buffer as Data
from penny_cache.store.recover import recover
from penny_cache.store.settings import Settings
from penny_cache.store.ticket import Stage, Ticket
from penny_cache.store.writer import Writer

logger = logging.getLogger(__name__)

Key = str | bytes
T = TypeVar("T")


class Store:
    """The bundles of one namespace. Use `open_store`; a context manager. Every method may be called from any thread."""

    def __init__(self, namespace: Namespace, engine: Engine, settings: Settings, writable: bool) -> None:
        self.path, self.settings = namespace.path, settings
        self._namespace = bytes.fromhex(namespace.identity.digest)
        self._engine = engine
        self._guard = threading.RLock()
        self._tally = Tally()
        self._closed = False
        self._held = ExitStack()
        lock = -1
        try:
            self._held.enter_context(lease.hold(self.path))
            if writable:
                lock = files.lock(self.path)
                self._held.callback(os.close, lock)
            self._seen = {} if writable else files.listing(self.path)
            self.recovered = recover(self.path, self._namespace, engine, repair=writable)
        except BaseException:
            self._held.close()
            engine.shutdown()
            raise
        self._index = self.recovered.index
        self._handles = Handles(self.path, engine, settings.open_files)
        self._reader = Reader(self.path, self._handles, engine, settings.read_memory, self._did_not_come)
        self._complaints = Complaints(f"Bundles of {self.path} are not used any more")
        self._pins = Pins()
        self._collector: Collector | None = None
        self._writer: Writer | None = None
        if writable:
            self._collector = Collector(
                self.path, self._namespace, engine, index=self._index, guard=self._guard, settings=settings,
                tally=self._tally, pins=self._pins, forget_file=self._handles.forget,
            )  # fmt: skip
            self._collector.stale |= self.recovered.stale
            self._writer = Writer(
                self.path, self._namespace, engine, self._index, self._guard,
                first_segment=max(self.recovered.next_segment, files.last_segment(lock) + 1),
                first_sequence=self.recovered.sequence, settings=settings, tally=self._tally,
                collector=self._collector, note_segment=partial(files.note_segment, lock),
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
    def writable(self) -> bool:
        """Whether this is the store's writer."""
        return self._writer is not None

    @property
    def counters(self) -> Counters:
        """What the store did since it was opened."""
        waiting = self._writer.waiting if self._writer is not None else 0
        limit = self.settings.write_memory if self._writer is not None else 0
        return replace(self._tally.read(), queue_bytes=waiting, queue_limit=limit)

    @property
    def allocated(self) -> int:
        """Bytes that the store's files take on the drive."""
        return allocated(self.path)

    def survey(self) -> Survey:
        """A copy of the index, for tables and for reading every bundle (`load([Digest(row["key"])])`)."""
        with self._guard:
            rows, _ = self._index.sorted_rows()
            layouts = tuple(self._index.layouts)
        flat = rows.view(np.uint8).reshape(-1, rows.dtype.itemsize)
        return Survey(flat[np.argsort(rows["sequence"])].view(rows.dtype).reshape(-1), layouts)

    def refresh(self) -> bool:
        """See what the writer did since this reader was opened; whether there was anything.

        Raises:
            StoreError: the store is open for writing, which sees all of it, or the file system refused.
        """
        if self._writer is not None:
            raise StoreError(f"{self.path} is open for writing; only readers need to look again.")
        self._check()
        seen = files.listing(self.path)
        if seen == self._seen:
            return False
        recovered = recover(self.path, self._namespace, self._engine, repair=False)
        with self._guard:
            self.recovered, self._index, self._seen = recovered, recovered.index, seen
        self._handles.forget()
        return True

    def collect(self, size: int) -> int:
        """Give up bundles worth about `size` bytes; how many bytes came free.

        Raises:
            StoreError: the store is open for reading.
        """
        return self._giver().collect(size)

    def forget(self, keys: Sequence[Key]) -> int:
        """Take bundles out of the store for good, whatever hangs on them; how many were there.

        Those that are still in the segment that is written to are taken out of its index when it is sealed.

        Raises:
            StoreError: the store is open for reading, or the file system refused.
        """
        return self._giver().forget(digests(keys))

    @contextmanager
    def pinned(self, chain: Sequence[Key]) -> Iterator[int]:
        """Keep the bundles of a chain that are there from being given up; yields how many.

        Of a reader this holds nothing back: the writer of another process knows nothing of it.
        """
        self._check()
        keys = digests(chain)
        with self._guard:
            keys = keys[: len(self._index.chain(keys))]
            self._pins.hold(keys)
        try:
            yield len(keys)
        finally:
            with self._guard:
                self._pins.release(keys)

    def close(self) -> None:
        """Write what waits, seal the segment, let others write. Loads that are under way end with a StoreError."""
        with self._guard:
            closed, self._closed = self._closed, True
        if closed:
            return
        if self._writer is not None and self._collector is not None:
            self._writer.close()
            self._collector.close()
            self._snapshot(self._writer)
        self._reader.close()
        self._engine.shutdown()
        self._handles.forget()
        self._held.close()

    def forked(self) -> None:
        """Let go of everything, in a child process that has this store by a fork: it is the parent's."""
        self._closed = True
        self._held.close()

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
            StoreError: the store is open for reading, or closed.
            TypeError: a key is neither text nor bytes.
        """
        self._check()
        if self._writer is None:
            raise StoreError(f"{self.path} is open for reading only.")
        above = NO_KEY if parent is None else digest(parent)
        try:
            ticket = self._writer.put(digest(key), parts, above, Stage(wanted), wait)
        except BundleRefused:
            self._tally.add(refused=1)
            raise
        except StoreBusy:
            self._tally.add(busy=1)
            raise
        self._tally.add(put=1)
        return ticket

    def match(self, chain: Sequence[Key]) -> int:
        """How many bundles from the start of a chain are there, each with the one before as its parent."""
        self._check()
        keys = digests(chain)
        with self._guard:
            return len(self._found(keys))

    def parts(self, chain: Sequence[Key]) -> list[frozenset[str]]:
        """Names of the parts of each bundle that `match` counts; for `hybrid.restorable`."""
        self._check()
        keys = digests(chain)
        with self._guard:
            rows = self._found(keys)
            named = {n: self._index.names(n) for n in set(self._index.rows["layout"][rows].tolist())}
            return [named[n] for n in self._index.rows["layout"][rows].tolist()]

    def load(self, chain: Sequence[Key]) -> Iterator[Loaded]:
        """Load a chain in order, from its first bundle to the last that is there and whole.

        A bundle that turns out to be damaged ends the chain there and is not found again.

        Raises:
            StoreError: the store is closed, or other loads hold `read_memory` for a minute.
        """
        spots = self._spots(chain)
        try:
            loaded = self._timed(self._reader.load(spots))
            for position, parts in enumerate(loaded):
                self._tally.add(loaded=1, bytes_read=spots[position].blocks * BLOCK)
                yield Loaded(position, parts)
        finally:
            self._let_go(spots)

    def restore(self, chain: Sequence[Key], place: Place) -> Iterator[int]:
        """Load a chain into memory of the caller; yields the position of each bundle when its bytes are verified there.

        Args:
            chain: keys.
            place: asked for each part (position, name, bytes) where it goes: writable memory of so many bytes or more;
                None leaves the part out, unread. Memory at a multiple of 4,096 is written to by the drive itself; other
                memory gets a copy. It is asked ahead: until a position is yielded, its memory holds anything.

        A bundle that turns out to be damaged ends the chain there, as in `load`.

        Raises:
            ValueError: memory that a part does not fit.
            StoreError: as `load`; or something else writes to the memory meanwhile.
        """
        spots = self._spots(chain)
        read = [0] * len(spots)

        def counted(position: int, name: str, length: int) -> memoryview | None:
            memory = place(position, name, length)
            read[position] += 0 if memory is None else length
            return memory

        try:
            for position in self._timed(self._reader.restore(spots, counted)):
                self._tally.add(loaded=1, bytes_read=read[position])
                yield position
        finally:
            self._let_go(spots)

    def _check(self) -> None:
        if self._closed:
            raise StoreError(CLOSED.format(self.path))

    def _snapshot(self, writer: Writer) -> None:
        """Keep the index as one file, if each segment has a whole index file as well."""
        try:
            listing = files.listing(self.path)
            if len(listing) != 2 * len(files.segments(self.path)):
                return
            with self._guard:
                kept = snapshot.of(self._index, writer.next_segment, writer.next_sequence, listing)
            snapshot.write(self.path, self._namespace, kept, self._engine)
        except (OSError, StoreError) as error:
            logger.warning("No snapshot of %s was written; opening it takes longer: %s", self.path, error)

    def _giver(self) -> Collector:
        self._check()
        if self._collector is None:
            raise StoreError(f"{self.path} is open for reading only.")
        return self._collector

    def _found(self, keys: Sequence[bytes]) -> list[int]:
        every = self._index.find(keys)
        rows: list[int] = self._index.chain(keys, every).tolist()
        stranded = int(np.count_nonzero(every[len(rows) :] >= 0))
        self._tally.add(
            lookups=1, hits=bool(rows), pages_asked=len(keys), pages_found=len(rows), pages_stranded=stranded
        )
        return rows

    def _spots(self, chain: Sequence[Key]) -> list[Spot]:
        """Where the bundles of a chain are; they stay there until they are let go."""
        self._check()
        keys = digests(chain)
        with self._guard:
            rows = self._found(keys)
            self._index.touch(np.array(rows, np.int64))
            self._tally.add(loads=1)
            spots = [self._spot(self._index, row) for row in rows]
            self._pins.hold((spot.bundle.key for spot in spots), (spot.segment for spot in spots))
        return spots

    def _let_go(self, spots: Sequence[Spot]) -> None:
        with self._guard:
            self._pins.release((spot.bundle.key for spot in spots), (spot.segment for spot in spots))

    def _spot(self, index: Index, row: int) -> Spot:
        found = index.rows[row]
        bundle = Bundle(
            self._namespace, found["key"].tobytes(), found["parent"].tobytes(), int(found["sequence"])
        )
        return Spot(
            int(found["segment"]), int(found["offset"]), int(found["blocks"]), bundle, index.layout(row)
        )

    def _timed(self, loading: Generator[T, None, None]) -> Iterator[T]:
        try:
            while True:
                start = time.perf_counter_ns()
                try:
                    one = next(loading)
                except StopIteration:
                    return
                finally:
                    self._tally.add(load_nanoseconds=time.perf_counter_ns() - start)
                yield one
        finally:
            loading.close()

    def _did_not_come(self, broken: Broken) -> None:
        spot = broken.spot
        if broken.error is not None and broken.error.errno in SHORTAGE:
            logger.warning("A bundle of %s was not loaded: %s", self.path, broken.why)
            return
        with self._guard:
            row = int(self._index.find([spot.bundle.key])[0])
            if row < 0 or int(self._index.rows[row]["sequence"]) != spot.bundle.sequence:
                return  # it was replaced meanwhile, or met before
            count = self._note(row, broken)
            if self._collector is not None and broken.error is None:
                self._collector.stale.add(spot.segment)
        self._tally.add(**{count: 1})
        if count != "gone":
            self._complaints.about(f"segment {spot.segment}, block {spot.offset}: {broken.why}")

    def _note(self, row: int, broken: Broken) -> str:
        """Take note in the index; the counter for it."""
        if broken.error is not None:
            self._index.hide(row)
            return "unreadable"
        if any(broken.gone):
            layout = self._index.layout(row)
            left = tuple((REMOVED if name in broken.gone else name, size) for name, size in layout)
            self._index.set_layout(row, left)
            return "gone"
        self._index.remove(np.array([row], np.int64))
        # The writer knows what it gave up itself, so to it an empty place is damage.
        return "gone" if broken.gone and self._writer is None else "damaged"
