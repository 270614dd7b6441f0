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
        limit: descriptors that stay open while nobody uses them.
    """

    def __init__(self, directory: Path, engine: Engine, limit: int = 64) -> None:
        self._directory, self._engine, self._limit = directory, engine, limit
        self._open: OrderedDict[int, int] = OrderedDict()
        self._users: Counter[int] = Counter()
        self._gone: dict[int, list[int]] = {}
        self._guard = threading.Lock()

    def take(self, segment: int) -> int:
        """A descriptor for reading, which stays open until it is released. Raises OSError."""
        with self._guard:
            file = self._open.get(segment)
            if file is None:
                file = self._open[segment] = self._engine.open(
                    segment_path(self._directory, segment), os.O_RDONLY
                )
            self._open.move_to_end(segment)
            self._users[file] += 1
        return file

    def release(self, file: int) -> None:
        """Note that one user of a descriptor is done."""
        with self._guard:
            self._users[file] -= 1
            self._close_unused()

    @contextmanager
    def reading(self, segment: int) -> Iterator[int]:
        """`take` and `release`."""
        file = self.take(segment)
        try:
            yield file
        finally:
            self.release(file)

    def forget(self, segment: int) -> None:
        """Note that a segment is removed: nothing of it stays open once its users are done."""
        with self._guard:
            file = self._open.pop(segment, None)
            if file is not None:
                self._gone.setdefault(segment, []).append(file)
            self._close_unused()

    def close(self) -> None:
        """Close all; nobody may use one."""
        with self._guard:
            for segment in list(self._open):
                self._gone.setdefault(segment, []).append(self._open.pop(segment))
            self._close_unused()

    def _close_unused(self) -> None:
        for segment, files in list(self._gone.items()):
            self._gone[segment] = [file for file in files if not self._closed(file)]
            if not self._gone[segment]:
                del self._gone[segment]
        for segment, file in list(self._open.items()):
            if len(self._open) <= self._limit:
                break
            if self._closed(file):
                del self._open[segment]

    def _closed(self, file: int) -> bool:
        if self._users[file]:
            return False
        del self._users[file]
        self._engine.close(file)
        return True
