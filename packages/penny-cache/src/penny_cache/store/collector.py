"""Giving space back: within a budget of bytes, and above a floor of free ones.

What goes is decided by `eviction`. It is first taken out of the index, in memory and in the segment's index file, and
only then made a hole in the segment: a reader never finds what is no longer there. A segment without bundles goes.
"""

from __future__ import annotations

import errno
import os
import threading
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from penny_cache.engine import Engine, Range, Transfer
from penny_cache.store import files
from penny_cache.store.complaints import Complaints
from penny_cache.store.counters import Tally
from penny_cache.store.errors import CLOSED, StoreError
from penny_cache.store.eviction import Victim, victims
from penny_cache.store.image import REMOVED, Layout, places
from penny_cache.store.index import ROW, Index, Rows
from penny_cache.store.memory import Buffer
from penny_cache.store.pins import Pins
from penny_cache.store.records import BLOCK, Header, Kind, blocks
from penny_cache.store.segment import index_of
from penny_cache.store.settings import Settings

EVICT_TO = 0.95
"""Share of the space in question that is left full, so that not every segment needs a new round."""
AT_ONCE = 500
"""Bundles that leave the index while nobody else may look at it."""
REPLACED = "what replaces bundles of it is not durable"
SHARE = 4
"""At most one part in so many of a store goes for the sake of one segment."""


def allocated(directory: Path) -> int:
    """Bytes that the store's files take on the drive, holes left out."""
    total = 0
    with os.scandir(directory) as entries:
        for entry in entries:
            ours = entry.name.endswith((".segment", ".index")) or entry.name == files.SNAPSHOT
            if ours and (seen := files.status(entry)):
                total += seen.st_blocks * 512
    return total


@dataclass
class _Freed:
    """What is to go of one segment.

    Attributes:
        ranges: to become holes.
        gone: headers of parts that are given up of bundles that stay, by the byte at which they are.
        before: rows and layouts as they were, should the segment refuse.
    """

    ranges: list[Range] = field(default_factory=list)
    gone: list[tuple[int, Header]] = field(default_factory=list)
    before: list[tuple[Rows, Layout]] = field(default_factory=list)


class Collector:
    """Frees space in one store, which it is the writer of.

    Args:
        directory, namespace, engine, index: of the store; `guard` is held while the index changes.
        settings: budget, floor of free bytes, and snapshots.
        tally, pins: of the store.
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
        pins: Pins,
        forget_file: Callable[[int], None],
    ) -> None:
        self._directory, self._namespace, self._engine = directory, namespace, engine
        self._index, self._guard, self._pins = index, guard, pins
        self._settings, self._tally = settings, tally
        self._forget_file = forget_file
        self._complaints = Complaints(f"Segments of {directory} keep their space")
        self._turn = threading.Lock()  # two rounds at once would write the same index files
        self._closed = False
        self._stuck: set[int] = set()
        self.stale: set[int] = set()
        """Segments whose index files name too much: bundles found damaged, or replaced. `guard` is held for it."""
        self.open_ends: Callable[[], dict[int, int]] = dict
        """Of the segments that are not sealed: number, and bytes that are given away."""
        self.sync_open: Callable[[], bool] = lambda: True
        """Makes durable what was written to those; whether it is."""

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

    def cheap(self, size: int) -> bool:
        """Whether the file system has so many bytes above the floor, or a small part of the store makes them."""
        return self._short(size) <= allocated(self._directory) // SHARE

    def collect(self, size: int) -> int:
        """Give up bundles worth about `size` bytes; how many bytes came free.

        Raises:
            StoreError: the store is closed.
        """
        with self._turn:
            self._check()
            freed = self._freshen()  # or what was replaced would come back when the newer one goes
            if size > freed:
                freed += self._evict(size - freed)
            return freed

    def forget(self, keys: Sequence[bytes]) -> int:
        """Take bundles out of the store, whatever hangs on them; how many were there.

        Raises:
            StoreError: the store is closed, or an index file could not be written: those bundles stay.
        """
        with self._turn:
            self._check()
            self._freshen()
            with self._guard:
                found = self._index.find_keys(np.frombuffer(b"".join(keys), ROW["key"]))
                rows = np.unique(found[found >= 0])
                segments = self._index.rows["segment"][rows]
                unsealed = np.isin(segments, sorted(self.open_ends()))
                self._index.remove(rows[unsealed])
                self.stale.update(segments[unsealed].tolist())
                freed: dict[int, _Freed] = defaultdict(_Freed)
                for row in rows[~unsealed].tolist():
                    self._take_out(row, (), freed)
            _, failed = self._free_all(freed)
            if failed:
                raise StoreError(
                    f"The segments {sorted(failed)} of {self._directory} keep bundles that were to be forgotten."
                )
            return len(rows)

    def close(self) -> None:
        """Write the index files that are stale; nothing is given up any more."""
        with self._turn:
            self._freshen()
            self._closed = True

    def _check(self) -> None:
        if self._closed:
            raise StoreError(CLOSED.format(self._directory))

    def _short(self, size: int) -> int:
        free = os.statvfs(self._directory)
        return size + self._settings.free_floor - free.f_bavail * free.f_frsize

    def _lacking(self, size: int) -> tuple[int, int, str]:
        """Bytes that must go for `size` more, that should go, and the setting that asks for it."""
        taken = allocated(self._directory) + self._under_way()
        budget = self._settings.budget
        over = 0 if budget is None else taken + size - budget
        short = self._short(size)
        slack = int((1 - EVICT_TO) * (taken if budget is None else budget))
        need = max(over, short, 0)
        return need, need + slack, "free_floor" if short > over else "budget"

    def _under_way(self) -> int:
        """Bytes of open segments that are given away and not on the drive yet."""
        total = 0
        for number, end in self.open_ends().items():
            try:
                total += max(0, end - files.segment_path(self._directory, number).stat().st_blocks * 512)
            except FileNotFoundError:
                continue
        return total

    def _evict(self, size: int) -> int:
        passed_over = set(self._stuck)
        freed = self._evict_once(size)
        if freed < size and passed_over:
            # The others were not enough, so they are tried again.
            self._stuck -= passed_over
            freed += self._evict_once(size - freed)
        return freed

    def _evict_once(self, size: int) -> int:
        chosen, newest = self._choose(size)
        freed: dict[int, _Freed] = defaultdict(_Freed)
        count = 0
        for first in range(0, len(chosen), AT_ONCE):
            with self._guard:
                count += self._forget(chosen[first : first + AT_ONCE], newest, freed)
        self._tally.add(evicted=count)
        return self._free_all(freed)[0]

    def _choose(self, size: int) -> tuple[list[Victim], int]:
        """What to give up, and the newest bundle that was looked at."""
        with self._guard:
            view = self._index.view()
            pinned = self._index.find_keys(np.frombuffer(b"".join(self._pins.keys), ROW["key"]))
            left = sorted({*self.open_ends(), *self._stuck, *self._pins.segments})
        kept = np.isin(view.rows["segment"], left)
        kept[pinned[pinned >= 0]] = True
        chosen: list[Victim] = []
        for victim in victims(view, self._settings.snapshots, kept):
            if size <= 0:
                break
            chosen.append(victim)
            size -= victim.size
        return chosen, int(view.rows["sequence"].max(initial=0))

    def _forget(self, chosen: Sequence[Victim], newest: int, freed: dict[int, _Freed]) -> int:
        """Take out of the index what nobody holds by now; how many that were."""
        pinned, busy = self._pins.keys, self._pins.segments
        later = self._index.alive & (self._index.rows["sequence"] > newest)
        parents = {key.tobytes() for key in self._index.rows["parent"][later]}
        rows = self._index.find_keys(np.frombuffer(b"".join(v.key for v in chosen), ROW["key"])).tolist()
        count = 0
        for victim, row in zip(chosen, rows, strict=True):
            held = victim.key in pinned or victim.key in parents
            if row < 0 or held or int(self._index.rows[row]["sequence"]) != victim.sequence:
                continue
            if int(self._index.rows[row]["segment"]) in busy:
                continue
            self._take_out(row, victim.parts, freed)
            count += 1
        return count

    def _take_out(self, row: int, parts: Sequence[str], freed: dict[int, _Freed]) -> None:
        """Take a bundle, or some of its parts, out of the index, and note what that frees."""
        found, layout = self._index.rows[row], self._index.layout(row)
        start, of = int(found["offset"]) * BLOCK, freed[int(found["segment"])]
        of.before.append((self._index.rows[row : row + 1].copy(), layout))
        if not parts:
            of.ranges.append((start, int(found["blocks"]) * BLOCK))
            self._index.remove(np.array([row]))
            return
        identity = self._namespace, int(found["sequence"]), found["key"].tobytes(), found["parent"].tobytes()
        for name, header, payload, length in places(layout):
            if name in parts:
                of.ranges.append((start + payload, blocks(length) * BLOCK))
                of.gone.append((start + header, Header(Kind.GONE, *identity, length, name=name)))
        self._index.set_layout(
            row, tuple((REMOVED if name in parts else name, length) for name, length in layout)
        )

    def _put_back(self, before: list[tuple[Rows, Layout]]) -> None:
        for record, layout in before:
            row = int(self._index.find_keys(record["key"])[0])
            record["layout"] = self._index.layout_number(layout)
            if row < 0:
                self._index.add(record)
            elif self._index.rows[row]["sequence"] == record["sequence"][0]:
                self._index.set_layout(row, layout)

    def _freshen(self) -> int:
        """Write the index files that are stale, and free what they named too much; how many bytes came free."""
        with self._guard:
            segments = self.stale - set(self.open_ends()) - set(self._pins.segments)
        # What replaced their bundles must be as durable as those were before they go.
        if not segments or not self.sync_open():
            return 0
        with self._guard:
            self.stale -= segments
            dead = {segment: _Freed(self._dead(segment)) for segment in sorted(segments)}
        return self._free_all(dead)[0]

    def _dead(self, segment: int) -> list[Range]:
        """What no bundle of a segment takes, up to its last one."""
        rows = np.sort(self._index.rows_of(segment), order="offset")
        ends = rows["offset"].astype(np.int64) + rows["blocks"]
        starts = np.concatenate(([1], ends[:-1]))
        gaps = rows["offset"] - starts
        return [
            (int(s) * BLOCK, int(g) * BLOCK) for s, g in zip(starts[gaps > 0], gaps[gaps > 0], strict=True)
        ]

    def _free_all(self, freed: dict[int, _Freed]) -> tuple[int, set[int]]:
        """Bytes that came free, and the segments that refused."""
        total, failed = 0, set()
        for segment, what in freed.items():
            try:
                total += self._free(segment, what)
            except FileNotFoundError:
                continue  # somebody removed the file
            except OSError as error:
                # The next ones are tried; this one is again when nothing else is left.
                failed.add(segment)
                with self._guard:
                    self._put_back(what.before)
                    if not what.before:
                        self.stale.add(segment)
                self._complaints.about(
                    f"{files.segment_path(self._directory, segment).name}: {error.strerror}"
                )
        self._stuck |= failed
        return total, failed

    def _free(self, segment: int, what: _Freed) -> int:
        path = files.segment_path(self._directory, segment)
        before = path.stat().st_blocks * 512
        with self._guard:
            empty = not len(self._index.rows_of(segment))
        if empty:
            self._remove(segment, path, what)
            return before
        self._mark(path, what.gone)
        try:
            self._write_index(segment, path)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            # Which makes room for the index file; until it is there, reads find the holes.
            self._engine.punch(path, what.ranges)
            self._write_index(segment, path)
        what.before.clear()
        self._engine.punch(path, what.ranges)
        return before - path.stat().st_blocks * 512

    def _remove(self, segment: int, path: Path, what: _Freed) -> None:
        """In an order in which no power cut leaves the segment without an index that says it is empty."""
        try:
            self._write_index(segment, path)
        except OSError as error:
            if error.errno != errno.ENOSPC:
                raise
            self._engine.truncate(path, BLOCK)
            self._write_index(segment, path)
        what.before.clear()
        self._engine.unlink(path)
        self._forget_file(segment)
        self._engine.sync_directory(self._directory)
        self._engine.unlink(files.index_path(self._directory, segment))

    def _mark(self, path: Path, gone: list[tuple[int, Header]]) -> None:
        """Write into headers that their parts are given up: a walk could not tell their holes from torn writes."""
        if not gone:
            return
        file = self._engine.open(path, os.O_WRONLY)
        try:
            with Buffer(BLOCK) as block:
                for at, header in gone:
                    block[:] = header.packed()
                    self._engine.write(Transfer(file, at, [block])).result()
            self._engine.sync(file)
        finally:
            self._engine.close(file)

    def _write_index(self, segment: int, path: Path) -> None:
        end = path.stat().st_size // BLOCK
        with self._guard:
            data = index_of(segment, end, self._namespace, self._index)
            replaced = segment in self.stale
        # What it does not name any more must not be lost to a power cut with what replaced it.
        if replaced and not self.sync_open():
            raise OSError(errno.EIO, REPLACED)
        files.replace(files.index_path(self._directory, segment), data, self._engine)
