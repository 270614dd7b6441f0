"""Giving space back: within a budget of bytes, and above a floor of free ones.

What goes is decided by `eviction`. It is first taken out of the index, in memory and in the segment's index file, and
only then made a hole in the segment: a reader never finds what is no longer there. A segment without bundles goes.
"""

from __future__ import annotations

import errno
import logging
import os
import threading
from collections import Counter, defaultdict
from collections.abc import Callable, Collection
from pathlib import Path

import numpy as np

from penny_cache.engine import Engine, Range
from penny_cache.store import files
from penny_cache.store.errors import StoreError
from penny_cache.store.eviction import Victim, victims
from penny_cache.store.image import REMOVED, places
from penny_cache.store.index import Index
from penny_cache.store.records import BLOCK, blocks
from penny_cache.store.segment import index_of

logger = logging.getLogger(__name__)

EVICT_TO = 0.95
"""Share of the budget that is left full, so that not every segment needs a new round."""


def allocated(directory: Path) -> int:
    """Bytes that the store's files take on the drive, holes left out."""
    total = 0
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith((".segment", ".index")):
                total += entry.stat(follow_symlinks=False).st_blocks * 512
    return total


class Collector:
    """Frees space in one store, which it is the writer of.

    Args:
        directory, namespace, engine, index: of the store; `guard` is held while the index changes.
        budget: bytes that the store may take; None for no limit.
        free_floor: bytes that stay free on its file system.
        snapshots: names of parts that a prefix needs at its end only.
        open_segments: numbers of the segments that are not sealed.
        forget_file: told the number of a segment that is removed, of which nothing may stay open.
    """

    def __init__(
        self,
        directory: Path,
        namespace: bytes,
        engine: Engine,
        *,
        index: Index,
        guard: threading.RLock,
        budget: int | None,
        free_floor: int,
        snapshots: Collection[str],
        open_segments: Callable[[], set[int]],
        forget_file: Callable[[int], None],
    ) -> None:
        self._directory, self._namespace, self._engine = directory, namespace, engine
        self._index, self._guard = index, guard
        self._budget, self._floor, self._snapshots = budget, free_floor, frozenset(snapshots)
        self._open_segments = open_segments
        self._forget_file = forget_file
        self._turn = threading.Lock()  # two rounds at once would write the same index files
        self.pinned: Counter[int] = Counter()
        self.stuck: set[int] = set()
        self.evicted = 0

    def make_room(self, size: int) -> None:
        """Free what `size` more bytes need.

        Raises:
            StoreError: there is not enough that may go.
        """
        need, wanted, limit = self._lacking(size)
        # A hole may free less than its bytes (the file's own tables grow), so there may be another round.
        while need > 0:
            freed = self.collect(wanted)
            before, (need, wanted, limit) = need, self._lacking(size)
            if need > 0 and (not freed or need >= before):
                raise StoreError(
                    f"{self._directory} has no room for {size:,} bytes: {need:,} more would have to go ({limit}); what "
                    "is pinned, being loaded or being written stays."
                )

    def _lacking(self, size: int) -> tuple[int, int, str]:
        """Bytes that must go for `size` more, that should go, and the setting that asks for it."""
        taken = allocated(self._directory)
        over = 0 if self._budget is None else taken + size - self._budget
        free = os.statvfs(self._directory)
        short = size + self._floor - free.f_bavail * free.f_frsize
        need = max(over, short, 0)
        wanted = need if self._budget is None else max(need, int(taken + size - EVICT_TO * self._budget))
        return need, wanted, "free_floor" if short > over else "budget"

    def collect(self, size: int) -> int:
        """Give up bundles worth about `size` bytes; how many bytes came free."""
        with self._turn:
            return self._collect(size)

    def _collect(self, size: int) -> int:
        with self._guard:
            chosen = self._choose(size)
            holes = self._forget(chosen)
        freed = 0
        for segment, ranges in holes.items():
            try:
                freed += self._free(segment, ranges)
            except OSError as error:
                # Its bundles are forgotten and its file stays; the next ones are tried.
                self.stuck.add(segment)
                logger.warning("The segment %d of %s keeps its space: %s", segment, self._directory, error)
        self.evicted += len(chosen)
        return freed

    def _choose(self, size: int) -> list[Victim]:
        numbers = self._index.rows["segment"]
        fixed = np.isin(numbers, sorted(self._open_segments() | self.stuck))
        kept = {row for row, pins in self.pinned.items() if pins} | set(np.flatnonzero(fixed).tolist())
        chosen: list[Victim] = []
        for victim in victims(self._index, self._snapshots, kept):
            if size <= 0:
                break
            chosen.append(victim)
            size -= victim.size
        return chosen

    def _forget(self, chosen: list[Victim]) -> dict[int, list[Range]]:
        holes: dict[int, list[Range]] = defaultdict(list)
        for victim in chosen:
            row = self._index.rows[victim.row]
            start, segment = int(row["offset"]) * BLOCK, int(row["segment"])
            layout = self._index.layout(victim.row)
            if not victim.parts:
                holes[segment].append((start, int(row["blocks"]) * BLOCK))
                self._index.remove(np.array([victim.row]))
                continue
            holes[segment] += [
                (start + payload, blocks(length) * BLOCK)
                for name, _, payload, length in places(layout)
                if name in victim.parts and length
            ]
            self._index.set_layout(
                victim.row,
                tuple((REMOVED if name in victim.parts else name, length) for name, length in layout),
            )
        return holes

    def _free(self, segment: int, ranges: list[Range]) -> int:
        path = files.segment_path(self._directory, segment)
        before = path.stat().st_blocks * 512
        with self._guard:
            empty = not len(self._index.rows_of(segment))
        if empty:
            self._engine.unlink(path)
            self._forget_file(segment)
            self._engine.unlink(files.index_path(self._directory, segment))
            return before
        try:
            self._write_index(segment, path)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            # Which makes room for the index file; until it is there, reads find the holes.
            self._engine.punch(path, ranges)
            self._write_index(segment, path)
        self._engine.punch(path, ranges)
        return before - path.stat().st_blocks * 512

    def _write_index(self, segment: int, path: Path) -> None:
        end = path.stat().st_size // BLOCK
        with self._guard:
            data = index_of(segment, end, self._namespace, self._index)
        files.replace(files.index_path(self._directory, segment), data, self._engine)
