"""Which bundles there are and where: columns of numbers, about 110 bytes a bundle, and a search by key.

Keys are digests, so their first eight bytes are as good as random: bundles are found by binary search for those, then
by comparing the whole key. New rows go into a dictionary until there are many; then they are sorted in.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penny_cache.store.image import REMOVED, Layout
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
COMPACT_FROM = 1 << 12
_FIRST_ROOM = 1 << 10

Rows = NDArray[np.void]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class View:
    """An index at one moment, which does not change any more.

    Attributes:
        rows: all, those of removed bundles included.
        alive: which are of bundles that are there.
        used: when each was used last.
        layouts: by number.
    """

    rows: Rows
    alive: NDArray[np.bool_]
    used: NDArray[np.uint64]
    layouts: Sequence[Layout]


class Index:
    """The bundles of a store, by number of the row in which each stands.

    Removed ones are marked. `add` may give rows other numbers, when most of them are of removed bundles.
    """

    def __init__(self) -> None:
        self._rows: Rows = np.zeros(_FIRST_ROOM, ROW)
        self._alive = np.zeros(_FIRST_ROOM, bool)
        self._hidden = np.zeros(_FIRST_ROOM, bool)
        self._used = np.zeros(_FIRST_ROOM, np.uint64)
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
    def used(self) -> NDArray[np.uint64]:
        """When each row was used last: a number that rises with every `touch`."""
        return self._used[: self._count]

    def view(self) -> View:
        """The index now; rows are shared, for they only change in their layouts."""
        return View(self.rows, self.alive.copy(), self.used.copy(), tuple(self._layouts))

    def layout(self, row: int) -> Layout:
        """Names and bytes of the parts of a row's bundle."""
        return self._layouts[int(self._rows[row]["layout"])]

    def names(self, layout: int) -> frozenset[str]:
        """Names of the parts of a layout, by its number, that are there."""
        return frozenset(name for name, _ in self._layouts[layout]) - {REMOVED}

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

    def add(self, rows: Rows) -> None:
        """Append rows of bundles that are there."""
        if self._count + len(rows) > len(self._rows) and self._mostly_dead():
            self._sort()
        first, last = self._count, self._count + len(rows)
        if last > len(self._rows):
            room = max(last, 2 * len(self._rows))
            self._rows = _grown(self._rows, room)
            self._alive = _grown(self._alive, room)
            self._hidden = _grown(self._hidden, room)
            self._used = _grown(self._used, room)
        self._rows[first:last] = rows
        self._show(first, last)
        if len(self._new) + len(rows) <= NEW_LIMIT:
            self._new.update((key.tobytes(), first + i) for i, key in enumerate(rows["key"]))
        else:
            self._sort()

    def adopt(self, rows: Rows) -> None:
        """Have rows for its first ones; the array is the index's own from then on."""
        if self._count:
            raise ValueError(f"The index has {self._count:,} rows already.")
        self._rows = rows
        self._alive, self._hidden = np.zeros(len(rows), bool), np.zeros(len(rows), bool)
        self._used = np.zeros(len(rows), np.uint64)
        self._show(0, len(rows))
        self._sort()

    def restore(self, layouts: Sequence[Layout], rows: Rows, used: NDArray[np.uint64]) -> None:
        """Have what `sorted_rows` gave for its first rows; the arrays are the index's own from then on."""
        for layout in layouts:
            self.layout_number(layout)
        if not len(rows):
            return
        self._rows, self._used, self._count = rows, used, len(rows)
        self._alive, self._hidden = np.ones(len(rows), bool), np.zeros(len(rows), bool)
        self._tick = int(used.max(initial=0))
        self._sorted = rows.view("<u8").reshape(-1, ROW.itemsize // 8)[:, 0].copy()
        self._order = np.arange(len(rows), dtype=np.uint32)

    def sorted_rows(self) -> tuple[Rows, NDArray[np.uint64]]:
        """Copies of the rows that are there, by the first eight bytes of their keys, and when each was used."""
        self._sort()
        flat = self.rows.view(np.uint8).reshape(-1, ROW.itemsize)[self._order]
        found: Rows = flat.view(ROW).reshape(-1)
        return found, self._used[self._order]

    def _show(self, first: int, last: int) -> None:
        self._alive[first:last] = True
        self._hidden[first:last] = False
        self._tick += 1
        self._used[first:last] = self._tick
        self._count = last

    def find(self, keys: Sequence[bytes]) -> Numbers:
        """The row of each 32-byte key, -1 where there is none or it is hidden. The newest row of a key counts."""
        found = self._find(_column(keys), keys)
        found[(found >= 0) & self._hidden[found]] = -1
        return found

    def chain(self, keys: Sequence[bytes], found: Numbers | None = None) -> Numbers:
        """The rows of a chain: from its first key on those that are there and have the one before as their parent.

        The first may hang on a bundle that the caller has elsewhere. `found` is what `find` gives, if that was asked.
        """
        found = self.find(keys) if found is None else found
        linked = found >= 0
        if len(keys) > 1:
            parents = _words(self._rows["parent"][np.maximum(found[1:], 0)])
            linked[1:] &= (parents == _words(_column(keys[:-1]))).all(axis=1)
        return found if linked.all() else found[: int(np.argmin(linked))]

    def find_keys(self, keys: Rows) -> Numbers:
        """The row of each key of a column, hidden ones too; -1 where there is none."""
        data = keys.tobytes() if self._new else b""
        return self._find(keys, [data[i : i + DIGEST_BYTES] for i in range(0, len(data), DIGEST_BYTES)])

    def _find(self, keys: Rows, listed: Sequence[bytes]) -> Numbers:
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
            new = np.fromiter((self._new.get(key, -1) for key in listed), np.int64, len(listed))
            there = (new >= 0) & self._alive[new]
            found[there] = new[there]
        return found

    def touch(self, rows: Numbers) -> None:
        """Note that these rows were used now."""
        self._tick += 1
        self._used[rows] = self._tick

    def remove(self, rows: Numbers) -> None:
        """Mark rows as removed."""
        self._alive[rows] = False

    def hide(self, row: int) -> None:
        """Have a bundle not found any more until the store is opened again: it is there and could not be read."""
        self._hidden[row] = True

    def rows_of(self, segment: int) -> Rows:
        """A copy of the rows of a segment's bundles that are there."""
        found: Rows = self.rows[self.alive & (self.rows["segment"] == segment)].copy()
        return found

    def forget_replaced(self) -> None:
        """Of living rows with the same key, mark all but the newest as removed."""
        if self._new:
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
        if self._mostly_dead():
            self._compact()
        living = np.flatnonzero(self.alive).astype(np.uint32)
        first = _words(self._rows["key"][living])[:, 0]
        order = np.argsort(first, kind="stable")
        self._sorted, self._order = first[order], living[order]
        self._new.clear()

    def _mostly_dead(self) -> bool:
        return self._count > COMPACT_FROM and 2 * int(np.count_nonzero(self.alive)) < self._count

    def _compact(self) -> None:
        """Leave the rows of removed bundles out; the others get new numbers."""
        living = np.flatnonzero(self.alive)
        flat = self.rows.view(np.uint8).reshape(-1, ROW.itemsize)[living]
        self._rows = flat.view(ROW).reshape(-1)
        self._used, self._hidden = self._used[living], self._hidden[living]
        self._alive, self._count = np.ones(len(living), bool), len(living)


def _column(keys: Sequence[bytes]) -> Rows:
    found: Rows = np.frombuffer(b"".join(keys), ROW["key"])
    return found


def _words(keys: Rows) -> NDArray[np.uint64]:
    """Each key as four numbers."""
    words: NDArray[np.uint64] = np.frombuffer(np.ascontiguousarray(keys).tobytes(), "<u8").reshape(
        -1, DIGEST_BYTES // 8
    )
    return words


def _grown(column: NDArray[Any], room: int) -> NDArray[Any]:
    return np.concatenate((column, np.zeros(room - len(column), column.dtype)))
