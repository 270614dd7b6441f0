"""What to give up for space, as a pure function of the index.

First the snapshots that nobody needs to go on from: those inside a linear path that has a later one. Then whole
bundles from the ends of chains, the longest unused first, so that what is left is always a chain from its start.
Branch points and tails keep their snapshots until they are such an end.
"""

from __future__ import annotations

import heapq
from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penny_cache.store.image import REMOVED
from penny_cache.store.index import Index, Numbers
from penny_cache.store.records import BLOCK, blocks


@dataclass(frozen=True)
class Victim:
    """Something to give up.

    Attributes:
        row: of the bundle.
        parts: names of the parts to remove; none for the whole bundle.
        size: bytes on the drive that this frees.
    """

    row: int
    parts: tuple[str, ...]
    size: int


def victims(index: Index, snapshots: Collection[str], kept: Collection[int]) -> Iterator[Victim]:
    """What to give up, in order, until the caller has enough.

    Args:
        index: of the store; it must not change meanwhile.
        snapshots: names of the parts that a prefix needs at its end only.
        kept: rows that must stay as they are: pinned, being loaded, or in a segment that is not sealed.
    """
    rows = np.flatnonzero(index.alive)
    parents = _parents(index, rows)
    children = np.bincount(parents[parents >= 0], minlength=len(index.rows))
    gone: set[int] = set()
    for victim in _redundant(index, rows, parents, children, snapshots):
        if victim.row not in kept:
            yield victim
    # A bundle in `kept` keeps its whole chain: it is a child that never goes.
    ends = [(int(index.used[row]), int(row)) for row in rows if not children[row] and row not in kept]
    heapq.heapify(ends)
    while ends:
        _, row = heapq.heappop(ends)
        gone.add(row)
        yield Victim(row, (), int(index.rows[row]["blocks"]) * BLOCK)
        parent = int(parents[row])
        if parent >= 0:
            children[parent] -= 1
            if not children[parent] and parent not in kept:
                heapq.heappush(ends, (int(index.used[parent]), parent))


def _redundant(
    index: Index, rows: Numbers, parents: Numbers, children: NDArray[np.int64], snapshots: Collection[str]
) -> Iterator[Victim]:
    """Snapshots inside linear paths with a later one, the longest unused first."""
    found: list[tuple[int, int]] = []
    # From each end or branch point back to the branch point before: a path of only children.
    for end in rows[children[rows] != 1].tolist():
        row, later = end, False
        while row >= 0 and (row == end or children[row] == 1):
            has = _has_snapshots(index, row, snapshots)
            if has and later:
                found.append((int(index.used[row]), row))
            later = later or has
            row = int(parents[row])
    for _, row in sorted(found):
        parts = tuple(name for name, _ in index.layout(row) if name in snapshots)
        size = sum(blocks(length) for name, length in index.layout(row) if name in parts) * BLOCK
        yield Victim(row, parts, size)


def _has_snapshots(index: Index, row: int, snapshots: Collection[str]) -> bool:
    names = {name for name, _ in index.layout(row)} - {REMOVED}
    return bool(names & set(snapshots))


def _parents(index: Index, rows: Numbers) -> Numbers:
    """For each row of the index the row of its parent; -1 for none, and for rows that are not in `rows`."""
    found = np.full(len(index.rows), -1, np.int64)
    found[rows] = index.find_keys(index.rows["parent"][rows])
    return found
