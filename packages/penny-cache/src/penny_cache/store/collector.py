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
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np

from penny_cache.engine import Engine, Range
from penny_cache.store import files
from penny_cache.store.counters import Tally
from penny_cache.store.errors import StoreError
from penny_cache.store.eviction import Victim, victims
from penny_cache.store.image import REMOVED, places
from penny_cache.store.index import Index, Numbers
from penny_cache.store.records import BLOCK, blocks
from penny_cache.store.segment import index_of
from penny_cache.store.settings import Settings

logger = logging.getLogger(__name__)

EVICT_TO = 0.95
"""Share of the budget that is left full, so that not every segment needs a new round."""


def allocated(directory: Path) -> int:
    """Bytes that the store's files take on the drive, holes left out."""
    total = 0
    with os.scandir(directory) as entries:
        for entry in entries:
            if entry.name.endswith((".segment", ".index")) and (seen := files.status(entry)):
                total += seen.st_blocks * 512
    return total


class Collector:
    """Frees space in one store, which it is the writer of.

    Args:
        directory, namespace, engine, index: of the store; `guard` is held while the index changes.
        settings: budget, floor of free bytes, and snapshots.
        tally: of the store.
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
        settings: Settings,
        tally: Tally,
        open_segments: Callable[[], set[int]],
        forget_file: Callable[[int], None],
    ) -> None:
        self._directory, self._namespace, self._engine = directory, namespace, engine
        self._index, self._guard = index, guard
        self._settings, self._tally = settings, tally
        self._open_segments = open_segments
        self._forget_file = forget_file
        self._turn = threading.Lock()  # two rounds at once would write the same index files
        self._pinned: Counter[int] = Counter()
        self._stuck: set[int] = set()
        self.stale: set[int] = set()
        """Segments whose index files name too much: bundles found damaged, or replaced. `guard` is held for it."""

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

    def fits(self, size: int) -> bool:
        """Whether the file system has so many bytes above the floor, without anything given up."""
        return self._short(size) <= 0

    def _short(self, size: int) -> int:
        free = os.statvfs(self._directory)
        return size + self._settings.free_floor - free.f_bavail * free.f_frsize

    def _lacking(self, size: int) -> tuple[int, int, str]:
        """Bytes that must go for `size` more, that should go, and the setting that asks for it."""
        taken = allocated(self._directory)
        budget = self._settings.budget
        over = 0 if budget is None else taken + size - budget
        short = self._short(size)
        need = max(over, short, 0)
        wanted = need if budget is None else max(need, int(taken + size - EVICT_TO * budget))
        return need, wanted, "free_floor" if short > over else "budget"

    def collect(self, size: int) -> int:
        """Give up bundles worth about `size` bytes; how many bytes came free."""
        with self._turn:
            freed = self._freshen()  # or what was replaced would come back when the newer one goes
            with self._guard:
                chosen = self._choose(size - freed)
                holes = self._forget(chosen)
            self._tally.add(evicted=len(chosen))
            return freed + self._free_all(holes)

    def forget(self, rows: Numbers) -> None:
        """Take bundles out of the store, whatever hangs on them.

        Raises:
            StoreError: an index file could not be written.
        """
        with self._turn:
            with self._guard:
                sealed = ~np.isin(self._index.rows["segment"][rows], sorted(self._open_segments()))
                self._index.remove(rows[~sealed])
                holes = self._forget([Victim(row, (), 0) for row in rows[sealed].tolist()])
            self._free_all(holes)
            if left := sorted(set(holes) & self._stuck):
                raise StoreError(
                    f"The segments {left} of {self._directory} keep bundles that were to be forgotten."
                )

    def pin(self, rows: Sequence[int], by: int) -> None:
        """Keep bundles from being given up, or no longer (-1); `guard` is held."""
        for row in rows:
            self._pinned[row] += by
            if not self._pinned[row]:
                del self._pinned[row]

    def close(self) -> None:
        """Write the index files that are stale."""
        with self._turn:
            self._freshen()

    def _freshen(self) -> int:
        """Write the index files that are stale, and free what they named too much; how many bytes came free."""
        with self._guard:
            segments = self.stale - self._open_segments() - self._stuck
            self.stale -= segments
            dead = {segment: self._dead(segment) for segment in sorted(segments)}
        return self._free_all(dead)

    def _dead(self, segment: int) -> list[Range]:
        """What no bundle of a segment takes, up to its last one."""
        rows = np.sort(self._index.rows_of(segment), order="offset")
        ends = rows["offset"].astype(np.int64) + rows["blocks"]
        starts = np.concatenate(([1], ends[:-1]))
        gaps = rows["offset"] - starts
        return [
            (int(s) * BLOCK, int(g) * BLOCK) for s, g in zip(starts[gaps > 0], gaps[gaps > 0], strict=True)
        ]

    def _free_all(self, holes: dict[int, list[Range]]) -> int:
        freed = 0
        for segment, ranges in holes.items():
            try:
                freed += self._free(segment, ranges)
            except OSError as error:
                # Its bundles are forgotten and its file stays; the next ones are tried.
                self._stuck.add(segment)
                logger.warning("The segment %d of %s keeps its space: %s", segment, self._directory, error)
        return freed

    def _choose(self, size: int) -> list[Victim]:
        numbers = self._index.rows["segment"]
        fixed = np.isin(numbers, sorted(self._open_segments() | self._stuck))
        kept = {row for row, pins in self._pinned.items() if pins} | set(np.flatnonzero(fixed).tolist())
        chosen: list[Victim] = []
        for victim in victims(self._index, self._settings.snapshots, kept):
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
            # In an order in which no power cut leaves the segment without an index that says it is empty.
            self._write_index(segment, path)
            self._engine.unlink(path)
            self._forget_file(segment)
            self._engine.sync_directory(self._directory)
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
