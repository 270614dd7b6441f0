"""The write path: bundles are copied into a bounded queue, written as they come, and made visible when they are.

One thread gives each bundle its place, seals its image and starts the write; the engine has many writes under way.
Another one syncs, and seals segments: one that is full is synced and gets its index file once its last write is done.
"""

from __future__ import annotations

import errno
import logging
import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from penny_cache.engine import Engine, Transfer, Transferred
from penny_cache.store import segment as segments
from penny_cache.store.collector import REPLACED, Collector
from penny_cache.store.complaints import Complaints
from penny_cache.store.counters import Tally
from penny_cache.store.errors import CLOSED, BundleRefused, StoreBusy, StoreError
from penny_cache.store.files import index_path, replace
from penny_cache.store.image import Bundle, Layout, fill, image_blocks, layout_of, seal
from penny_cache.store.index import ROW, Index
from penny_cache.store.memory import Buffer, Pool
from penny_cache.store.records import BLOCK
from penny_cache.store.records import Buffer as Data
from penny_cache.store.segment import Segment
from penny_cache.store.settings import Settings
from penny_cache.store.ticket import Stage, Ticket

logger = logging.getLogger(__name__)

UNSYNCED = "A bundle in {} is written and not durable: {}."
ENDED = "The writer of %s ended"


@dataclass
class _Job:
    bundle: Bundle
    layout: Layout
    buffer: Buffer
    ticket: Ticket
    segment: Segment | None = None
    offset: int = 0


class Writer:
    """Appends bundles to the segments of one store.

    Args:
        directory, namespace: of the store.
        engine: moves the bytes.
        index: gets the bundles that are written; `guard` is held meanwhile.
        first_segment, first_sequence: numbers that are free from there on.
        note_segment: told each number that a segment gets.
        settings, tally, collector: of the store.
    """

    def __init__(
        self,
        directory: Path,
        namespace: bytes,
        engine: Engine,
        index: Index,
        guard: threading.RLock,
        *,
        first_segment: int,
        first_sequence: int,
        settings: Settings,
        tally: Tally,
        collector: Collector,
        note_segment: Callable[[int], None],
    ) -> None:
        self._note_segment = note_segment
        self._collector, self._tally = collector, tally
        self._directory, self._namespace, self._engine = directory, namespace, engine
        self._index, self._guard = index, guard
        self._number, self._sequence = first_segment, first_sequence
        self._limit = settings.segment_size // BLOCK
        self._pool = Pool(settings.write_memory)
        self._complaints = Complaints(f"Bundles are not stored in {directory}")
        self._waiting: deque[_Job] = deque()
        self._done: deque[tuple[_Job, Transferred]] = deque()
        self._changed = threading.Condition()
        self._tickets: set[Ticket] = set()
        self._under_way = 0
        self._closing = False
        self._fault: Exception | None = None
        self._active: Segment | None = None
        self._full: list[Segment] = []
        self._to_sync: list[_Job] = []
        # One thread, so that what is to be durable is synced before its segment is sealed and closed.
        self._syncer = ThreadPoolExecutor(1, "penny-cache-sync")
        collector.open_ends, collector.sync_open = self.open_ends, self._sync_open_there
        self._thread = threading.Thread(target=self._run, name="penny-cache-writer", daemon=True)
        self._thread.start()

    def put(self, key: bytes, parts: Mapping[str, Data], parent: bytes, wanted: Stage, wait: float) -> Ticket:
        """Take a copy of a bundle; waits up to `wait` seconds for room in the queue.

        Raises:
            BundleRefused: it can never be stored.
            StoreBusy: there was no room.
        """
        if key == parent:
            raise BundleRefused("A bundle cannot be its own parent.")
        layout = layout_of(parts)
        size = image_blocks(layout) * BLOCK
        if size > min(self._limit * BLOCK - BLOCK, self._pool.limit):
            raise BundleRefused(
                f"The bundle takes {size:,} bytes on disk; the store takes up to "
                f"{min(self._limit * BLOCK - BLOCK, self._pool.limit):,} (segment_bytes, a quarter of the budget, and "
                "write_memory)."
            )
        buffer = self._pool.take(size, wait)
        if buffer is None:
            raise StoreBusy(
                f"The write queue holds {self._pool.used:,} bytes and has no room for {size:,} more."
            )
        bundle = Bundle(self._namespace, key, parent)
        try:
            fill(buffer.view, parts)
        except BaseException:
            buffer.close()
            raise
        job = _Job(bundle, layout, buffer, Ticket(wanted))
        with self._changed:
            if self._closing:
                buffer.close()
                raise StoreError(self._why_closed())
            self._waiting.append(job)
            self._tickets.add(job.ticket)
            self._changed.notify_all()
        return job.ticket

    @property
    def next_segment(self) -> int:
        """The first number that no segment has."""
        return self._number

    @property
    def next_sequence(self) -> int:
        """The first number that no bundle has."""
        return self._sequence

    @property
    def waiting(self) -> int:
        """Bytes that wait to be written."""
        return self._pool.used

    def open_ends(self) -> dict[int, int]:
        """Of the segments that are not sealed: number, and bytes that are given away."""
        with self._changed:
            unsealed = [segment for segment in (*self._full, self._active) if segment is not None]
            return {segment.number: segment.end * BLOCK for segment in unsealed}

    def close(self) -> None:
        """Write what waits, seal the segment, end the threads."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
        self._syncer.shutdown()
        self._pool.clear()

    def _run(self) -> None:
        try:
            self._work()
        except Exception as error:
            logger.exception(ENDED, self._directory)
            self._broke(error)

    def _broke(self, error: Exception) -> None:
        """End after a fault of our own: nobody else would tell those who wait, and the queue would only fill."""
        with self._changed:
            self._closing, self._fault = True, error
            waiting = list(self._tickets)
            self._waiting.clear()
            self._changed.notify_all()
        for ticket in waiting:
            ticket.failed(_explained(self._directory, error))

    def _why_closed(self) -> str:
        if self._fault is None:
            return CLOSED.format(self._directory)
        return f"The writer of {self._directory} ended with a fault ({self._fault}); open the store again."

    def _later(self, work: Callable[[], None]) -> None:
        """Have the thread that syncs do something."""

        def guarded() -> None:
            try:
                work()
            except Exception as error:
                logger.exception(ENDED, self._directory)
                self._broke(error)

        self._syncer.submit(guarded)

    def _work(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(
                    lambda: self._waiting or self._done or (self._closing and not self._under_way)
                )
                job = self._waiting.popleft() if self._waiting else None
                finished = self._take_done()
                over = self._closing and not self._under_way and job is None and not finished
            if over:
                break
            self._finish(finished)
            if job is not None:
                self._start(job)
        self._retire()

    def _take_done(self) -> list[tuple[_Job, Transferred]]:
        finished = list(self._done)
        self._done.clear()
        return finished

    def _start(self, job: _Job) -> None:
        try:
            job.segment, job.offset = self._place(image_blocks(job.layout))
            job.bundle = Bundle(self._namespace, job.bundle.key, job.bundle.parent, self._sequence)
            self._sequence += 1
            size = image_blocks(job.layout) * BLOCK
            seal(job.buffer.view, job.bundle, job.layout)
            transfer = Transfer(job.segment.file, job.offset * BLOCK, [job.buffer.view[:size]])
            written = self._engine.write(transfer)
        except (OSError, StoreError) as error:
            job.buffer.close()
            self._failed(job, error)
            return
        job.segment.under_way += 1
        self._under_way += 1
        written.add_done_callback(lambda done: self._written(job, done))

    def _place(self, blocks: int) -> tuple[Segment, int]:
        if self._active is not None:
            offset = None if self._active.unsound else self._active.place(blocks)
            if offset is not None:
                return self._active, offset
            self._retire()
        limit = self._make_room(blocks)
        number, self._number = self._number, self._number + 1  # no number twice, even if this one fails
        self._note_segment(number)
        self._active = segments.create(self._directory, number, self._namespace, limit, self._engine)
        offset = self._active.place(blocks)
        if offset is None:
            raise AssertionError("put refuses what no segment holds")
        return self._active, offset

    def _make_room(self, blocks: int) -> int:
        """Room for a segment that holds `blocks`; its limit. On a file system that is nearly full it is a small one."""
        least = blocks + 1
        sizes = [max(self._limit // part, least) for part in (1, 8, 64)]
        limit = next((size for size in sizes if self._collector.cheap(size * BLOCK)), least)
        while True:
            try:
                self._collector.make_room(limit * BLOCK)
            except StoreError:
                # What is being written or sealed may go as well once it is.
                if not self._settle():
                    raise
            else:
                return limit

    def _settle(self) -> bool:
        """Wait until some segment is sealed; False if none is going to be."""
        with self._changed:
            if not self._full:
                return False
            self._changed.wait_for(lambda: self._done or any(not segment.under_way for segment in self._full))
            finished = self._take_done()
        self._finish(finished)
        self._syncer.submit(lambda: None).result()
        return True

    def _written(self, job: _Job, done: Transferred) -> None:
        with self._changed:
            self._done.append((job, done))
            self._changed.notify_all()

    def _finish(self, finished: list[tuple[_Job, Transferred]]) -> None:
        for job, done in finished:
            assert job.segment is not None
            job.segment.under_way -= 1
            self._under_way -= 1
            error = done.exception()
            job.buffer.close()
            if error is not None:
                self._failed(job, error)
                continue
            self._show(job)
            self._tally.add(written=1, bytes_written=image_blocks(job.layout) * BLOCK)
            job.ticket.reached(Stage.WRITTEN)
            if job.ticket.wanted is Stage.DURABLE:
                with self._changed:
                    self._to_sync.append(job)
            else:
                self._settled(job)
        if self._to_sync:
            self._later(self._sync)
        self._seal_full()

    def _sync(self) -> None:
        """Make durable what waits for it by now: what came while the last sync ran shares this one."""
        with self._changed:
            jobs, self._to_sync = self._to_sync, []
        by_segment: dict[int, list[_Job]] = {}
        for job in jobs:
            assert job.segment is not None
            by_segment.setdefault(job.segment.number, []).append(job)
        for together in by_segment.values():
            segment = together[0].segment
            assert segment is not None
            try:
                self._sync_one(segment)
            except OSError as error:
                for job in together:
                    self._failed(job, StoreError(UNSYNCED.format(self._directory, _reason(error))))
            else:
                self._tally.add(durable=len(together))
                for job in together:
                    job.ticket.reached(Stage.DURABLE)
                    self._settled(job)

    def _sync_one(self, segment: Segment) -> None:
        self._tally.add(syncs=1)
        segments.sync(segment, self._directory, self._engine)

    def _sync_open(self) -> bool:
        """Make durable what is written to the segments that are not sealed; in the thread that syncs."""
        with self._changed:
            unsealed = [segment for segment in (*self._full, self._active) if segment is not None]
        try:
            for segment in unsealed:
                self._sync_one(segment)
        except OSError as error:
            logger.warning(
                "The segments of %s that are written to cannot be synced: %s", self._directory, error
            )
            return False
        return True

    def _sync_open_there(self) -> bool:
        """`_sync_open` for other threads."""
        if not self.open_ends():
            return True
        try:
            return self._syncer.submit(self._sync_open).result()
        except RuntimeError:  # it was closed meanwhile, with all segments sealed
            return not self.open_ends()

    def _failed(self, job: _Job, error: BaseException) -> None:
        self._tally.add(failed=1)
        found = error if isinstance(error, StoreError) else _explained(self._directory, error)
        self._complaints.about(str(found))
        job.ticket.failed(found)
        self._settled(job)

    def _settled(self, job: _Job) -> None:
        with self._changed:
            self._tickets.discard(job.ticket)

    def _show(self, job: _Job) -> None:
        assert job.segment is not None
        row = np.zeros(1, ROW)
        with self._guard:
            row[0] = (
                job.bundle.key, job.bundle.parent, job.bundle.sequence, job.segment.number, job.offset,
                image_blocks(job.layout), self._index.layout_number(job.layout),
            )  # fmt: skip
            before = self._index.find_keys(row["key"])
            before = before[before >= 0]
            if (self._index.rows["sequence"][before] > job.bundle.sequence).any():
                # A newer one of its key was written sooner.
                self._collector.stale.add(job.segment.number)
                return
            self._index.remove(before)
            self._collector.stale.update(self._index.rows["segment"][before].tolist())
            self._index.add(row)

    def _retire(self) -> None:
        """Have the segment that is written to sealed once its last write is done."""
        with self._changed:
            if self._active is not None:
                self._full.append(self._active)
            self._active = None
        self._seal_full()

    def _seal_full(self) -> None:
        with self._changed:
            ready = [segment for segment in self._full if not segment.under_way and not segment.sealing]
            for segment in ready:
                segment.sealing = True
        for segment in ready:
            self._later(partial(self._seal, segment))

    def _seal(self, segment: Segment) -> None:
        try:
            segments.close_up(segment, self._directory, self._engine)
            with self._guard:
                data = segments.index_of(segment.number, segment.end, self._namespace, self._index)
                replaced = segment.number in self._collector.stale
            if replaced and not self._sync_open():
                raise OSError(errno.EIO, REPLACED)
            replace(index_path(self._directory, segment.number), data, self._engine)
        except OSError as error:
            # Its bundles are written; the next open finds them by walking the segment.
            logger.warning("The segment %d of %s was not sealed: %s", segment.number, self._directory, error)
        finally:
            self._engine.close(segment.file)
            with self._changed:
                self._full.remove(segment)
                self._changed.notify_all()


def _explained(directory: Path, error: BaseException) -> StoreError:
    return StoreError(f"A bundle was not stored in {directory}: {_reason(error)}.")


def _reason(error: BaseException) -> str:
    return error.strerror if isinstance(error, OSError) and error.strerror else str(error)
