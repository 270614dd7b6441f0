"""What a store did since it was opened."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import dataclass


@dataclass(frozen=True)
class Counters:
    """Counts since the store was opened, which only rise, and two figures of this moment. Bytes are of whole images.

    Attributes:
        put: bundles that the queue took.
        refused, busy: puts that can never be stored, and that the queue had no room for.
        written, bytes_written, durable, failed: how far bundles came; `durable` are those that asked for it.
        syncs: calls that made data durable.
        lookups, hits: calls of `match`, `parts` and of loads, and those that found a bundle.
        pages_asked, pages_found: keys of those calls, and those found in a chain from the first one on.
        pages_stranded: keys that are there behind one that is missing: state that cannot be used.
        loads, loaded, bytes_read: calls, the bundles that came verified, and the bytes read for them.
        load_nanoseconds: within loads, without the time of the caller between two bundles.
        damaged: bundles whose bytes were not those that were stored; they are forgotten.
        unreadable: bundles that could not be read; they are not found until the store is opened again.
        gone: bundles, or parts of them, that another process gave up since this reader looked.
        evicted: bundles and snapshots that were given up for space.
        queue_bytes, queue_limit: that wait to be written now, and that may at most.
    """

    put: int = 0
    refused: int = 0
    busy: int = 0
    written: int = 0
    bytes_written: int = 0
    durable: int = 0
    failed: int = 0
    syncs: int = 0
    lookups: int = 0
    hits: int = 0
    pages_asked: int = 0
    pages_found: int = 0
    pages_stranded: int = 0
    loads: int = 0
    loaded: int = 0
    bytes_read: int = 0
    load_nanoseconds: int = 0
    damaged: int = 0
    unreadable: int = 0
    gone: int = 0
    evicted: int = 0
    queue_bytes: int = 0
    queue_limit: int = 0


class Tally:
    """Counters that several threads add to."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._guard = (
            threading.RLock()
        )  # a load that the garbage collector ends counts in any thread, at any time

    def add(self, **counts: int) -> None:
        """Add to counters by name."""
        with self._guard:
            for name, by in counts.items():
                self._counts[name] += by

    def read(self) -> Counters:
        """The counters now."""
        with self._guard:
            return Counters(**self._counts)
