"""Reading bundles into memory of the store or of the caller: ahead of who asks, verified before anyone sees them."""

from __future__ import annotations

import errno
import logging
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path

from penny_cache.engine import Engine, Transfer, Transferred
from penny_cache.store.errors import CLOSED, StoreError
from penny_cache.store.handles import Handles
from penny_cache.store.image import GIVEN_UP, REMOVED, Bundle, Layout, check_image, damaged, places
from penny_cache.store.landing import Place, landings, scatter
from penny_cache.store.memory import Buffer, Pool, copy
from penny_cache.store.records import BLOCK, Kind, unpack

logger = logging.getLogger(__name__)

SHORTAGE = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EAGAIN, errno.EINTR})
"""Errors that say nothing about the file."""
WAIT = 60.0
"""Seconds that a load waits for memory which other loads hold."""
SHARES = 4
"""One load takes one part in so many of the memory, so that one that nobody asks on holds up no other."""


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
        gone: names of the parts that were given up since the index was read; an empty one for all of the bundle.
    """

    spot: Spot
    why: str
    error: OSError | None = None
    gone: tuple[str, ...] = ()


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
        directory, handles, engine: of the store.
        memory: bytes that pass through the store's memory, of all loads together; one takes a quarter, or one bundle.
        broken: told of each bundle that did not come.
    """

    def __init__(
        self, directory: Path, handles: Handles, engine: Engine, memory: int, broken: Callable[[Broken], None]
    ) -> None:
        self._directory, self._closed = directory, False
        self._handles, self._engine, self._broken = handles, engine, broken
        self._pool = Pool(memory)

    def load(self, spots: Sequence[Spot]) -> Generator[Mapping[str, memoryview], None, None]:
        """The parts of each bundle, in order, up to the first that does not come; gone when the next is asked for."""
        with closing(self._under_way(spots, self._whole)) as jobs:
            for job in jobs:
                if not self._came(job) and not self._reduced(job):
                    return
                names = [name for name, *_ in places(job.layout)]
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
        """Start no more reads, and free what is kept for later loads."""
        self._closed = True
        self._pool.clear()

    def _under_way(
        self, spots: Sequence[Spot], start: Callable[[int, Spot, float], _Job | None]
    ) -> Generator[_Job, None, None]:
        ahead: deque[_Job] = deque()
        started = flying = 0
        try:
            while ahead or started < len(spots):
                while started < len(spots) and (not ahead or flying < self._pool.limit // SHARES):
                    spot = spots[started]
                    if ahead and not self._handles.room(spot.segment):
                        break
                    try:
                        job = start(started, spot, 0.0 if ahead else WAIT)
                    except (StoreError, ValueError):
                        if not ahead:
                            raise
                        break  # those before it come first
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
        if self._closed:
            job.buffer.close()
            raise StoreError(CLOSED.format(self._directory))
        try:
            job.file = self._handles.take(job.spot.segment)
        except OSError as error:
            job.refused = error
            return
        start = job.spot.offset * BLOCK
        for offset, views in runs:
            try:
                job.done.append(self._engine.read(Transfer(job.file, start + offset, views)))
            except RuntimeError as error:  # the engine was shut down meanwhile
                self._end(job)
                raise StoreError(CLOSED.format(self._directory)) from error

    def _came(self, job: _Job) -> bool:
        errors = [done.exception() for done in job.done] if job.refused is None else [job.refused]
        for error in filter(None, errors):
            if not isinstance(error, OSError):
                raise error
            self._broken(Broken(job.spot, f"it cannot be read ({error.strerror})", error))
            return False
        why, gone = self._verified(job)
        if why and not gone:
            # Before a bundle is forgotten for good: memory, ours or the caller's, may be what is wrong.
            why = self._again(job)
        if why:
            self._broken(Broken(job.spot, why, gone=gone))
        return not why

    def _reduced(self, job: _Job) -> bool:
        """Leave out the parts that were given up meanwhile; whether the others are whole, and some are left."""
        headers = [unpack(view) for view in job.headers]
        kept = [i for i, header in enumerate(headers) if header is None or header.kind is not Kind.GONE]
        if not kept or len(kept) == len(headers):
            return False
        there = [part for part in job.layout if part[0] != REMOVED]
        job.layout = tuple(there[i] for i in kept)
        job.headers = [job.headers[i] for i in kept]
        job.payloads = [job.payloads[i] for i in kept]
        return self._verified(job) == ("", ())

    def _verified(self, job: _Job) -> tuple[str, tuple[str, ...]]:
        """Why what was read is not the bundle, and which parts were given up; empty when it is."""
        for source, target in job.copies:
            copy(target, source)
        headers = [unpack(view) for view in job.headers]
        why = damaged(headers, job.payloads, job.spot.bundle, job.layout)
        if not why:
            return "", ()
        gone = tuple(header.name for header in headers if header is not None and header.kind is Kind.GONE)
        if gone and why in [GIVEN_UP.format(name) for name in gone]:
            return why, gone
        if headers[0] is None and not any(job.headers[0]):
            return "its place is empty: it was given up meanwhile, or its file was damaged", ("",)
        return why, ()

    def _again(self, job: _Job) -> str:
        """Read a bundle once more, into memory of its own; why it is damaged there too, empty if it came after all."""
        spot = job.spot
        names = [name for name, _ in job.layout if name != REMOVED]
        with Buffer(spot.blocks * BLOCK) as view, self._handles.reading(spot.segment) as file:
            try:
                self._engine.read(Transfer(file, spot.offset * BLOCK, [view])).result()
            except (OSError, RuntimeError) as error:
                return f"it cannot be read again ({error})"
            if why := check_image(view, spot.bundle, spot.layout):
                return why
            found = {name: view[at : at + size] for name, _, at, size in places(spot.layout)}
            for name, target in zip(names, job.payloads, strict=True):
                target[:] = found[name]
            wrong = [name for name, target in zip(names, job.payloads, strict=True) if target != found[name]]
            found.clear()
        if wrong:
            raise StoreError(
                f"The memory for {', '.join(wrong)} of a bundle changes while it is restored: something else writes to "
                "it."
            )
        logger.warning(
            "A bundle of %s came right at the second reading only; memory may be faulty.", self._directory
        )
        return ""

    def _end(self, job: _Job) -> None:
        for done in job.done:
            done.exception()  # while it is written to, the memory is nobody else's
        job.headers = job.payloads = job.copies = ()
        job.done.clear()
        if job.file is not None:
            self._handles.release(job.file)
        job.buffer.close()
