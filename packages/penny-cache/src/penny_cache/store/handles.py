"""Descriptors of segments that are read: opened when needed, few at a time."""

from __future__ import annotations

import os
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from penny_cache.engine import Engine
from penny_cache.store.files import segment_path


class Handles:
    """Open segments of one store.

    Args:
        directory, engine: of the store.
        limit: descriptors that are open at a time. One that a load cannot do without is opened above it.
    """

    def __init__(self, directory: Path, engine: Engine, limit: int = 64) -> None:
        self._directory, self._engine, self._limit = directory, engine, limit
        self._open: OrderedDict[int, int] = OrderedDict()
        self._users: Counter[int] = Counter()
        self._gone: list[int] = []
        # The garbage collector may end a load, which releases descriptors, while this very thread is in here.
        self._guard = threading.RLock()
        self._busy = False

    def room(self, segment: int) -> bool:
        """Whether a segment can be read without a descriptor more than the limit."""
        with self._guard:
            return segment in self._open or len(self._users) < self._limit or not all(self._users.values())

    def take(self, segment: int) -> int:
        """A descriptor for reading, which stays open until it is released. Raises OSError."""
        with self._guard, self._alone():
            file = self._open.get(segment)
            if file is None:
                self._close_unused(self._limit - 1)
                file = self._engine.open(segment_path(self._directory, segment), os.O_RDONLY)
                self._open[segment] = file
            self._open.move_to_end(segment)
            self._users[file] += 1
        return file

    @contextmanager
    def reading(self, segment: int) -> Iterator[int]:
        """`take` and `release`."""
        file = self.take(segment)
        try:
            yield file
        finally:
            self.release(file)

    def release(self, file: int) -> None:
        """Note that one user of a descriptor is done."""
        with self._guard:
            self._users[file] -= 1
            if not self._busy:
                with self._alone():
                    self._close_unused(self._limit)

    def forget(self, segment: int | None = None) -> None:
        """Note that a segment, or any, may be another file now: what is open is closed once its users are done."""
        with self._guard, self._alone():
            for one in list(self._open) if segment is None else [segment]:
                file = self._open.pop(one, None)
                if file is not None:
                    self._gone.append(file)
            self._close_unused(self._limit)

    @contextmanager
    def _alone(self) -> Iterator[None]:
        before, self._busy = self._busy, True
        try:
            yield
        finally:
            self._busy = before

    def _close_unused(self, limit: int) -> None:
        self._gone = [file for file in self._gone if not self._closed(file)]
        for segment, file in list(self._open.items()):
            if len(self._users) <= limit:
                break
            if self._closed(file):
                del self._open[segment]

    def _closed(self, file: int) -> bool:
        if self._users[file]:
            return False
        del self._users[file]
        self._engine.close(file)
        return True
