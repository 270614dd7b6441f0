"""Aligned memory, bounded: what is written waits in it, and what is read with O_DIRECT passes through it."""

from __future__ import annotations

import mmap
import threading
from collections.abc import Callable
from types import TracebackType

from penny_cache.store.records import BLOCK, blocks


class Buffer:
    """Some whole blocks of page-aligned memory; a context manager that gives them back.

    Args:
        size: bytes, rounded up to whole blocks.
        returned: told the bytes when they are given back.
    """

    def __init__(self, size: int, returned: Callable[[int], None] | None = None) -> None:
        self._map = mmap.mmap(-1, max(1, blocks(size)) * BLOCK)
        self.view = memoryview(self._map)
        self._returned = returned

    def close(self) -> None:
        """Give the memory back. It is freed when the last view of it is gone, which an engine may hold for a moment."""
        size = self.view.nbytes
        self.view.release()
        del self._map
        if self._returned is not None:
            self._returned(size)

    def __enter__(self) -> memoryview:
        return self.view

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Pool:
    """At most `limit` bytes of buffers at a time."""

    def __init__(self, limit: int) -> None:
        if limit < BLOCK:
            raise ValueError(f"A pool of {limit} bytes holds no block of {BLOCK}.")
        self.limit = limit
        self._used = 0
        self._changed = threading.Condition()

    @property
    def used(self) -> int:
        """Bytes that are taken."""
        return self._used

    def take(self, size: int, wait: float = 0.0) -> Buffer | None:
        """A buffer of at least `size` bytes; None if there is no room for it within `wait` seconds.

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
        return Buffer(whole, self._give_back)

    def _give_back(self, size: int) -> None:
        with self._changed:
            self._used -= size
            self._changed.notify_all()
