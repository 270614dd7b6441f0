"""Aligned memory, bounded: what is written waits in it, and what is read with O_DIRECT passes through it."""

from __future__ import annotations

import mmap
import sys
import threading
from collections import OrderedDict
from types import TracebackType

import numpy as np

from penny_cache.store.records import BLOCK, blocks


def copy(target: memoryview, source: memoryview) -> None:
    """Copy bytes while other threads run: numpy gives the interpreter's lock away for it, slices of views do not."""
    if source.nbytes:
        np.copyto(np.frombuffer(target, np.uint8), np.frombuffer(source, np.uint8))


class Buffer:
    """Some whole blocks of page-aligned memory; a context manager that gives them back.

    Args:
        size: bytes, rounded up to whole blocks.
        pool: where they go back to; None frees them.
        memory: to use instead of new memory; its bytes are whatever they were.
    """

    def __init__(self, size: int, pool: Pool | None = None, memory: mmap.mmap | None = None) -> None:
        self._map = memory if memory is not None else mmap.mmap(-1, max(1, blocks(size)) * BLOCK)
        self.view = memoryview(self._map)
        self._pool = pool

    def close(self) -> None:
        """Give the memory back. While a view of it is alive, which an engine may hold for a moment, nobody gets it."""
        size = self.view.nbytes
        self.view.release()
        memory = self._map
        del self._map
        if self._pool is not None:
            # Views of views hold the map itself: with none left, there are this name and the argument of the call.
            self._pool.give_back(memory if sys.getrefcount(memory) == 2 else None, size)

    def __enter__(self) -> memoryview:
        return self.view

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Pool:
    """At most `limit` bytes of buffers at a time; those that came back are used again, for their pages are there."""

    def __init__(self, limit: int) -> None:
        if limit < BLOCK:
            raise ValueError(f"A pool of {limit} bytes holds no block of {BLOCK}.")
        self.limit = limit
        self._used = 0
        self._spare: OrderedDict[int, list[mmap.mmap]] = OrderedDict()
        self._spared = 0
        self._changed = threading.Condition()

    @property
    def used(self) -> int:
        """Bytes that are taken."""
        return self._used

    def take(self, size: int, wait: float = 0.0) -> Buffer | None:
        """A buffer of at least `size` bytes, not zeroed; None if there is no room for it within `wait` seconds.

        Raises:
            ValueError: it could never have room.
        """
        whole = max(1, blocks(size)) * BLOCK
        if whole > self.limit:
            raise ValueError(f"{whole:,} bytes are asked for, and the pool has {self.limit:,}.")
        with self._changed:
            if not self._changed.wait_for(lambda: self._used + whole <= self.limit, wait):
                return None
            self._used += whole
            memory = self._again(whole)
        return Buffer(whole, self, memory)

    def give_back(self, memory: mmap.mmap | None, size: int) -> None:
        """Take `size` bytes back; None for memory that somebody still looks at, which is freed when they stop."""
        with self._changed:
            self._used -= size
            if memory is not None:
                self._spare.setdefault(size, []).append(memory)
                self._spare.move_to_end(size)
                self._spared += size
            self._changed.notify_all()

    def clear(self) -> None:
        """Free the memory that waits to be used again."""
        with self._changed:
            self._spare.clear()
            self._spared = 0

    def _again(self, size: int) -> mmap.mmap | None:
        found = self._spare.get(size)
        if found:
            memory = found.pop()
            self._spared -= size
            if not found:
                del self._spare[size]
            return memory
        # Sizes that are not asked for any more make room, the longest unused first.
        while self._spare and self._used + self._spared > self.limit:
            other, memories = next(iter(self._spare.items()))
            memories.pop()
            self._spared -= other
            if not memories:
                del self._spare[other]
        return None
