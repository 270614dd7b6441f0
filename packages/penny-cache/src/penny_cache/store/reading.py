"""Reading bundles into memory of the store or of the caller: ahead of who asks, verified before anyone sees them."""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field

from penny_cache.engine import Engine, Transfer, Transferred
from penny_cache.store.errors import StoreError
from penny_cache.store.handles import Handles
from penny_cache.store.image import Bundle, Layout, damaged, places
from penny_cache.store.landing import Place, landings, scatter
from penny_cache.store.memory import Buffer, Pool
from penny_cache.store.records import BLOCK, unpack

SHORTAGE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR})
"""Errors that say nothing about the file."""
WAIT = 60.0
"""Seconds that a load waits for memory which other loads hold."""


@dataclass(frozen=True)
class Spot:
    """Where a bundle is: its segment, first block and blocks there, and what it must turn out to be."""

    segment: int
    offset: int
    blocks: int
    bundle: Bundle
    layout: Layout


@dataclass(frozen=True)
class Broken:
    """A bundle that did not come.

    Attributes:
        spot: of the bundle.
        why: end of a sentence.
        error: of the call that could not read it; None where the bytes came, and are not those that were stored.
    """

    spot: Spot
    why: str
    error: OSError | None = None


@dataclass
class _Job:
    """A bundle under way: what is read of it, and where that is seen."""

    spot: Spot
    buffer: Buffer
    layout: Layout = ()
    headers: Sequence[memoryview] = ()
    payloads: Sequence[memoryview] = ()
    copies: Sequence[tuple[memoryview, memoryview]] = ()
    file: int | None = None
    done: list[Transferred] = field(default_factory=list)
    refused: OSError | None = None


class Reader:
    """Loads chains of one store.

    Args:
        handles, engine: of the store.
        memory: bytes of one load that are under way, and of all loads together that pass through the store's memory.
        broken: told of each bundle that did not come.
    """

    def __init__(
        self, handles: Handles, engine: Engine, memory: int, broken: Callable[[Broken], None]
    ) -> None:
        self._handles, self._engine, self._broken = handles, engine, broken
        self._pool = Pool(memory)

    def load(self, spots: Sequence[Spot]) -> Generator[Mapping[str, memoryview], None, None]:
        """The parts of each bundle, in order, up to the first that does not come; gone when the next is asked for."""
        with closing(self._under_way(spots, self._whole)) as jobs:
            for job in jobs:
                if not self._came(job):
                    return
                names = [name for name, *_ in places(job.spot.layout)]
                yield dict(zip(names, job.payloads, strict=True))
                for payload in job.payloads:
                    payload.release()

    def restore(self, spots: Sequence[Spot], place: Place) -> Generator[int, None, None]:
        """Read bundles to where `place` says; yields each position once its bytes are verified.

        The memory of later positions is written to meanwhile.
        """

        def scattered(position: int, spot: Spot, wait: float) -> _Job | None:
            return self._scattered(position, spot, wait, place)

        with closing(self._under_way(spots, scattered)) as jobs:
            for position, job in enumerate(jobs):
                if not self._came(job):
                    return
                yield position

    def close(self) -> None:
        """Free what is kept for later loads."""
        self._pool.clear()

    def _under_way(
        self, spots: Sequence[Spot], start: Callable[[int, Spot, float], _Job | None]
    ) -> Generator[_Job, None, None]:
        ahead: deque[_Job] = deque()
        started = flying = 0
        try:
            while ahead or started < len(spots):
                while started < len(spots) and (not ahead or flying < self._pool.limit):
                    spot = spots[started]
                    job = start(started, spot, 0.0 if ahead else WAIT)
                    if job is None:
                        break
                    ahead.append(job)
                    started, flying = started + 1, flying + spot.blocks * BLOCK
                job = ahead.popleft()
                flying -= job.spot.blocks * BLOCK
                try:
                    yield job
                finally:
                    self._end(job)
        finally:
            for job in ahead:
                self._end(job)

    def _whole(self, position: int, spot: Spot, wait: float) -> _Job | None:
        buffer = self._take(spot.blocks * BLOCK, wait)
        if buffer is None:
            return None
        job = _Job(spot, buffer, spot.layout)
        view = buffer.view
        spots = list(places(spot.layout))
        job.headers = [view[header : header + BLOCK] for _, header, _, _ in spots]
        job.payloads = [view[start : start + length] for _, _, start, length in spots]
        self._read(job, [(0, [view[: spot.blocks * BLOCK]])])
        return job

    def _scattered(self, position: int, spot: Spot, wait: float, place: Place) -> _Job | None:
        parts = landings(position, spot.layout, place)
        buffer = self._take(sum(part.scratch for part in parts) * BLOCK, wait)
        if buffer is None:
            return None
        found = scatter(parts, buffer.view)
        job = _Job(spot, buffer, tuple((part.name, part.length) for part in parts))
        job.headers, job.payloads, job.copies = found.headers, found.payloads, found.copies
        self._read(job, found.runs)
        return job

    def _take(self, size: int, wait: float) -> Buffer | None:
        if size > self._pool.limit:
            raise StoreError(
                f"A bundle takes {size:,} bytes and read_memory is {self._pool.limit:,}; open the store with more."
            )
        buffer = self._pool.take(size, wait)
        if buffer is None and wait:
            raise StoreError(
                f"No room to read {size:,} bytes came free within a minute; other loads hold read_memory, so end them "
                "or open the store with more."
            )
        return buffer

    def _read(self, job: _Job, runs: Sequence[tuple[int, list[memoryview]]]) -> None:
        if not runs:
            return
        try:
            job.file = self._handles.take(job.spot.segment)
        except OSError as error:
            job.refused = error
            return
        start = job.spot.offset * BLOCK
        job.done = [self._engine.read(Transfer(job.file, start + offset, views)) for offset, views in runs]

    def _came(self, job: _Job) -> bool:
        errors = [done.exception() for done in job.done] if job.refused is None else [job.refused]
        for error in filter(None, errors):
            if not isinstance(error, OSError):
                raise error
            self._broken(Broken(job.spot, f"it cannot be read ({error.strerror})", error))
            return False
        for source, target in job.copies:
            target[:] = source
        headers = [unpack(view) for view in job.headers]
        why = damaged(headers, job.payloads, job.spot.bundle, job.layout)
        if why:
            if headers[0] is None and not any(job.headers[0]):
                why = "its place is empty: it was given up meanwhile, or its file was damaged"
            self._broken(Broken(job.spot, why))
        return not why

    def _end(self, job: _Job) -> None:
        for done in job.done:
            done.exception()  # while it is written to, the memory is nobody else's
        job.headers = job.payloads = job.copies = ()
        job.done.clear()
        if job.file is not None:
            self._handles.release(job.file)
        job.buffer.close()
