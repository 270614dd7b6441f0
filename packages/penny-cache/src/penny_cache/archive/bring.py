"""An archive into a store."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from penny_cache.archive.read import Archive, Whole
from penny_cache.store import Digest, Stage, Store, Ticket
from penny_cache.store.records import NO_KEY

Progress = Callable[[int, int], None]
"""Told the bundles and the bytes of parts that are done."""
WAIT = 60.0
"""Seconds that a bundle waits for room in the write queue."""


@dataclass(frozen=True)
class Brought:
    """What came of it: bundles that were stored, and those that were there before."""

    stored: int
    there: int


def bring(
    archive: Archive, store: Store, namespace: bytes, progress: Progress = lambda bundles, size: None
) -> Brought:
    """Store the whole bundles of an archive, durably, except those that are there.

    Args:
        archive: read to its end; `Archive.problems` says then what did not come.
        store: open for writing.
        namespace: 32 bytes, the digest of its identity.
        progress: called after each bundle.

    Raises:
        StoreError: a bundle could not be stored. Those before it are there, so it can be done again.
        OSError: the archive cannot be read.
    """
    tickets: deque[Ticket] = deque()
    stored = there = size = 0
    for one in archive.bundles(namespace):
        if _has(store, one):
            there += 1
        else:
            parent = None if one.parent == NO_KEY else Digest(one.parent)
            tickets.append(store.put(Digest(one.key), one.parts, parent, Stage.DURABLE, wait=WAIT))
            stored += 1
            while tickets and tickets[0].wait(timeout=0):
                tickets.popleft()
        size += sum(map(len, one.parts.values()))
        progress(stored + there, size)
    for ticket in tickets:
        ticket.wait()
    return Brought(stored, there)


def _has(store: Store, one: Whole) -> bool:
    """Whether a bundle is there, with its parent if that is there."""
    key = Digest(one.key)
    if one.parent != NO_KEY and store.match([Digest(one.parent)]):
        return store.match([Digest(one.parent), key]) == 2
    return store.match([key]) == 1
