"""Which bundles there are and where: columns of numbers, about 130 bytes a bundle, and a search by key.

Keys are digests, so their first eight bytes are as good as random: bundles are found by binary search for those, then
by comparing the whole key. New rows go into a dictionary until there are many; then they are sorted in.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penny_cache.store.image import Layout
from penny_cache.store.keys import DIGEST_BYTES

ROW = np.dtype(
    [
        ("key", f"V{DIGEST_BYTES}"),
        ("parent", f"V{DIGEST_BYTES}"),
        ("sequence", "<u8"),
        ("segment", "<u4"),
        ("offset", "<u4"),
        ("blocks", "<u4"),
        ("layout", "<u4"),
    ]
)
"""One bundle: 32-byte digests, its number, its segment, first block and blocks there, and its layout's number."""
NEW_LIMIT = 1 << 16
_FIRST_ROOM = 1 << 10

Rows = NDArray[np.void]
Numbers = NDArray[np.int64]


class Index:
    """The bundles of a store, by number of the row in which each stands. Rows never move; removed ones are marked."""

    def __init__(self) -> None:
        self._rows: Rows = np.zeros(_FIRST_ROOM, ROW)
        self._alive = np.zeros(_FIRST_ROOM, bool)
        self._used = np.zeros(_FIRST_ROOM, np.uint32)
        self._count = 0
        self._tick = 0
        self._layouts: list[Layout] = []
        self._numbers: dict[Layout, int] = {}
        self._new: dict[bytes, int] = {}
        self._sorted = np.zeros(0, np.uint64)
        self._order = np.zeros(0, np.uint32)

    def __len__(self) -> int:
        """Bundles that are there."""
        return int(np.count_nonzero(self._alive[: self._count]))

    @property
    def rows(self) -> Rows:
        """All rows, those of removed bundles included."""
        return self._rows[: self._count]

    @property
    def alive(self) -> NDArray[np.bool_]:
        """Which rows are of bundles that are there."""
        return self._alive[: self._count]

    @property
    def used(self) -> NDArray[np.uint32]:
        """When each row was used last: a number that rises with every `touch`."""
        return self._used[: self._count]

    def layout(self, row: int) -> Layout:
        """Names and bytes of the parts of a row's bundle."""
        return self._layouts[int(self._rows[row]["layout"])]

    def layout_number(self, layout: Layout) -> int:
        """The number that rows have for a layout; most bundles of a store share a few."""
        if layout not in self._numbers:
            self._numbers[layout] = len(self._layouts)
            self._layouts.append(layout)
        return self._numbers[layout]

    @property
    def layouts(self) -> Sequence[Layout]:
        """Every layout, by number."""
        return self._layouts

    def add(self, rows: Rows) -> int:
        """Append rows of bundles that are there; returns the first one's number."""
        first, last = self._count, self._count + len(rows)
        if last > len(self._rows):
            room = max(last, 2 * len(self._rows))
            self._rows = _grown(self._rows, room)
            self._alive = _grown(self._alive, room)
            self._used = _grown(self._used, room)
        self._rows[first:last] = rows
        self._alive[first:last] = True
        self._tick += 1
        self._used[first:last] = self._tick
        self._count = last
        if len(self._new) + len(rows) <= NEW_LIMIT:
            self._new.update((key.tobytes(), first + i) for i, key in enumerate(rows["key"]))
        else:
            self._sort()
        return first

    def find(self, keys: Sequence[bytes]) -> Numbers:
        """The row of each 32-byte key, -1 where there is none. Of rows with the same key the newest counts."""
        return self.find_keys(np.frombuffer(b"".join(keys), ROW["key"]))

    def find_keys(self, keys: Rows) -> Numbers:
        """As `find`, for a column of keys."""
        found = np.full(len(keys), -1, np.int64)
        if len(self._sorted) and len(keys):
            words = _words(keys)
            at = np.searchsorted(self._sorted, words[:, 0])
            near = np.minimum(at, len(self._sorted) - 1)
            hits = np.flatnonzero(self._sorted[near] == words[:, 0])
            rows = self._order[near[hits]].astype(np.int64)
            same = (_words(self._rows["key"][rows]) == words[hits]).all(axis=1) & self._alive[rows]
            after = np.minimum(near[hits] + 1, len(self._sorted) - 1)
            alone = (self._sorted[after] != words[hits, 0]) | (after == near[hits])
            found[hits[same]] = rows[same]
            for i in hits[~(same & alone)].tolist():
                found[i] = self._among(keys[i].tobytes(), int(at[i]))
        if self._new:
            for i, key in enumerate(keys):
                row = self._new.get(key.tobytes())
                if row is not None and self._alive[row]:
                    found[i] = row
        return found

    def touch(self, rows: Numbers) -> None:
        """Note that these rows were used now."""
        self._tick += 1
        self._used[rows] = self._tick

    def remove(self, rows: Numbers) -> None:
        """Mark rows as removed."""
        self._alive[rows] = False

    def rows_of(self, segment: int) -> Rows:
        """A copy of the rows of a segment's bundles that are there."""
        found: Rows = self.rows[self.alive & (self.rows["segment"] == segment)].copy()
        return found

    def forget_replaced(self) -> None:
        """Of living rows with the same key, mark all but the newest as removed."""
        self._sort()
        for at in np.flatnonzero(self._sorted[1:] == self._sorted[:-1]).tolist():
            row, key = int(self._order[at]), self._rows[int(self._order[at])]["key"].tobytes()
            if self._among(key, int(np.searchsorted(self._sorted, self._sorted[at]))) != row:
                self._alive[row] = False

    def set_layout(self, row: int, layout: Layout) -> None:
        """Give a row another layout, of the same blocks."""
        self._rows[row]["layout"] = self.layout_number(layout)

    def _among(self, key: bytes, at: int) -> int:
        """The newest living row of `key` in the run of equal first bytes that starts at `at`; -1 if none is."""
        first, newest = self._sorted[at], -1
        while at < len(self._sorted) and self._sorted[at] == first:
            row = int(self._order[at])
            if self._alive[row] and self._rows[row]["key"].tobytes() == key:
                newest = max(newest, row)
            at += 1
        return newest

    def _sort(self) -> None:
        living = np.flatnonzero(self.alive).astype(np.uint32)
        first = _words(self._rows["key"][living])[:, 0]
        order = np.argsort(first, kind="stable")
        self._sorted, self._order = first[order], living[order]
        self._new.clear()


def _words(keys: Rows) -> NDArray[np.uint64]:
    """Each key as four numbers."""
    words: NDArray[np.uint64] = np.frombuffer(np.ascontiguousarray(keys).tobytes(), "<u8").reshape(
        -1, DIGEST_BYTES // 8
    )
    return words


def _grown(column: NDArray[Any], room: int) -> NDArray[Any]:
    return np.concatenate((column, np.zeros(room - len(column), column.dtype)))
