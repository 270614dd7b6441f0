"""What to give up for space, as a pure function of a view of the index.

1. Snapshots that nobody needs to go on from: those inside a linear path that has a later one. A path goes from a bundle
   to its only child, and on to the first that has no child or several; those two, the tail and the branch point, keep
   theirs.
2. Whole bundles from the ends of chains, so that what is left is always a chain from its start. An end is a bundle
   without children; its parent becomes one when its last child went.
3. Bundles whose parents form a ring, one that is its own parent included. No store of sound callers has them; they are
   never an end, and they have no start that others would need first. What hangs on a ring goes before it, in 2.

In each of the three the longest unused goes first, and of those that were used at once the lowest row. What is kept
stays with its snapshots, and so do all its ancestors, a whole ring among them; of ancestors only snapshots may go.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penny_cache.store.image import REMOVED
from penny_cache.store.index import ROW, Numbers, View
from penny_cache.store.keys import DIGEST_BYTES
from penny_cache.store.records import BLOCK, blocks

_WORDS = DIGEST_BYTES // 8


@dataclass(frozen=True, slots=True)
class Victim:
    """Something to give up.

    Attributes:
        row: of the bundle in the view; the index may have another one for it by now.
        parts: names of the parts to remove; none for the whole bundle.
        size: bytes on the drive that this frees.
        key: of the bundle, 32 bytes.
        sequence: number of the bundle, which tells it from one that replaced it.
    """

    row: int
    parts: tuple[str, ...]
    size: int
    key: bytes
    sequence: int


def victims(view: View, snapshots: Collection[str], kept: NDArray[np.bool_]) -> Iterator[Victim]:
    """What to give up, in order, until the caller has enough.

    The first one takes time for the whole view, the others only for themselves; but for the first of a ring, which
    takes time for what is left.

    Args:
        view: of the index. Layouts of its rows may change meanwhile: one that the view does not know has no snapshots.
        snapshots: names of the parts that a prefix needs at its end only.
        kept: [rows of the view] which must stay as they are: pinned, being loaded, or in a segment that is not sealed.
    """
    if kept.shape != view.alive.shape:
        raise ValueError(f"`kept` has shape {kept.shape}; the view has {len(view.alive):,} rows.")
    parents = _parents(view)
    children = np.bincount(parents[parents >= 0], minlength=len(parents))
    yield from _redundant(view, parents, children, snapshots, kept)
    left = view.alive.copy()
    yield from _whole(view, _from_ends(parents, children, left, kept, view.used))
    yield from _whole(view, _rings(parents, left, kept, view.used))


def _whole(view: View, rows: Iterable[int]) -> Iterator[Victim]:
    taken, keys, sequences = view.rows["blocks"], view.rows["key"], view.rows["sequence"]
    for row in rows:
        yield Victim(row, (), taken.item(row) * BLOCK, keys.item(row), sequences.item(row))


def _redundant(
    view: View, parents: Numbers, children: Numbers, snapshots: Collection[str], kept: NDArray[np.bool_]
) -> Iterator[Victim]:
    """Snapshots inside linear paths with a later one."""
    parts = [
        tuple(name for name, _ in layout if name in snapshots and name != REMOVED) for layout in view.layouts
    ]
    sizes = [
        sum(blocks(length) for name, length in layout if name in names) * BLOCK
        for layout, names in zip(view.layouts, parts, strict=True)
    ]
    layouts = np.minimum(view.rows["layout"], len(parts))
    has = np.array([*map(bool, parts), False])[layouts]
    inside = has & (children == 1) & ~kept
    if not inside.any():
        return
    keys, sequences = view.rows["key"], view.rows["sequence"]
    for row in _oldest(np.flatnonzero(inside & _later(parents, children, has)), view.used):
        layout = layouts.item(row)
        yield Victim(row, parts[layout], sizes[layout], keys.item(row), sequences.item(row))


def _later(parents: Numbers, children: Numbers, has: NDArray[np.bool_]) -> NDArray[np.bool_]:
    """Which rows come before one of `has` on a linear path. A ring that nothing hangs on is none: it has no last one.

    By pointer jumping: each row tells of those behind it up to some row, and after each round of twice as many. `told`
    has twice that row, or `end` once the path ended, and in the lowest bit whether one of `has` is among them.
    """
    end = 2 * len(parents)
    told = np.full(len(parents), end)
    only = np.flatnonzero(parents >= 0)
    only = only[children[parents[only]] == 1]
    told[parents[only]] = np.where(children[only] == 1, 2 * only, end) | has[only]
    walking = np.flatnonzero(told < end)
    for _ in range(len(walking).bit_length()):
        now = told[walking]
        now = told[now >> 1] | (now & 1)
        told[walking] = now
        walking = walking[now < end]
    found: NDArray[np.bool_] = told == end + 1
    return found


def _from_ends(
    parents: Numbers,
    children: Numbers,
    left: NDArray[np.bool_],
    kept: NDArray[np.bool_],
    used: NDArray[np.uint64],
) -> Iterator[int]:
    """Rows of ends, and of those that become one; they are no longer `left` then, nor children of their parents.

    A row of `kept` keeps its whole chain: it is a child that stays.
    """
    first = iter(_oldest(np.flatnonzero(left & (children == 0) & ~kept), used))
    new: list[tuple[int, int]] = []
    following = next(first, -1)
    while new or following >= 0:
        if following >= 0 and (not new or (used.item(following), following) < new[0]):
            row, following = following, next(first, -1)
        else:
            _, row = heapq.heappop(new)
        left[row] = False
        yield row
        parent = parents.item(row)
        if parent >= 0:
            children[parent] -= 1
            if not children[parent] and not kept[parent]:
                heapq.heappush(new, (used.item(parent), parent))


def _rings(
    parents: Numbers, left: NDArray[np.bool_], kept: NDArray[np.bool_], used: NDArray[np.uint64]
) -> list[int]:
    """Of the rows that are left, those that are neither kept nor ancestors of one that is.

    By pointer jumping again: each round marks the ancestors up to twice as far away.
    """
    rows = np.flatnonzero(left)
    none = len(rows)
    needed = np.append(kept[rows], True)
    if needed.all():
        return []
    numbers = np.full(len(parents) + 1, none)  # the last one is for rows without a parent
    numbers[rows] = np.arange(none)
    above = np.append(numbers[parents[rows]], none)
    for _ in range(none.bit_length()):
        needed[above[needed]] = True
        above = above[above]
    return _oldest(rows[~needed[:none]], used)


def _oldest(rows: Numbers, used: NDArray[np.uint64]) -> list[int]:
    """Rising rows by when they were used last."""
    found: list[int] = rows[np.argsort(used[rows], kind="stable")].tolist()
    return found


def _parents(view: View) -> Numbers:
    """For each row the row of its parent, the newest if several have its key; -1 for none and for rows not alive."""
    words = np.ascontiguousarray(view.rows).view("<u8").reshape(len(view.rows), ROW.itemsize // 8)
    keys, wanted = words[:, :_WORDS], words[:, _WORDS : 2 * _WORDS]
    found = np.full(len(words), -1, np.int64)
    rows = np.flatnonzero(view.alive)
    if not len(rows):
        return found
    # Both sides sorted, for a search in the order of memory.
    by_key = rows[np.argsort(keys[rows, 0])]
    rows = rows[np.argsort(wanted[rows, 0])]
    first, sought = keys[by_key, 0], wanted[rows, 0]
    at = np.minimum(np.searchsorted(first, sought), len(first) - 1)
    hit = first[at] == sought
    rows, at = rows[hit], at[hit]
    found[rows] = by_key[at]
    likely = np.flatnonzero(found >= 0)
    found[likely[(keys[found[likely]] != wanted[likely]).any(axis=1)]] = -1
    # Keys are digests: only copies of one key share the first eight bytes, or keys that somebody made for it.
    alike = np.append(first[1:] == first[:-1], False)
    if alike.any():
        shared = np.sort(by_key[alike | np.roll(alike, 1)]).tolist()
        newest = {keys[row].tobytes(): row for row in shared}
        for row in rows[alike[at]].tolist():
            found[row] = newest.get(wanted[row].tobytes(), -1)
    return found
