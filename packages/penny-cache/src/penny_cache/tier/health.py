"""Whether the storage answers, and what was done with it."""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from dataclasses import dataclass

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class TierCounters:
    """What a tier did since it was opened.

    Attributes:
        hits, misses: bundles that were asked for and given, or not given for whatever reason.
        damaged: objects that were not the bundle that they should be.
        refused: bundles that could not be written.
        failures: questions that were not answered, and requests that did not end in time.
        skipped: what was not tried, because the storage had not answered or there was no memory.
        put, known: bundles that were written; that were there already.
        bytes_read, bytes_written: of objects.
    """

    hits: int = 0
    misses: int = 0
    damaged: int = 0
    refused: int = 0
    failures: int = 0
    skipped: int = 0
    put: int = 0
    known: int = 0
    bytes_read: int = 0
    bytes_written: int = 0


class Health:
    """Counts, and keeps requests from a storage that does not answer.

    Args:
        name: of the tier, for the log.
        rest: s without requests after one that failed.
    """

    def __init__(self, name: str, rest: float) -> None:
        self._name, self._rest = name, rest
        self._guard = threading.Lock()
        self._counts: Counter[str] = Counter()
        self._until = float("-inf")
        self._down = False

    @property
    def resting(self) -> bool:
        """Whether no requests are to be made now."""
        return time.monotonic() < self._until

    def read(self) -> TierCounters:
        """The counters now."""
        with self._guard:
            return TierCounters(**self._counts)

    def count(self, **by: int) -> None:
        """Add to counters by name."""
        with self._guard:
            self._counts.update(by)

    def failed(self, why: str) -> None:
        """Note a request that was not answered. Logged if the one before was."""
        with self._guard:
            self._counts["failures"] += 1
            self._until = time.monotonic() + self._rest
            known, self._down = self._down, True
        if not known:
            logger.warning(
                "The shared tier %s does not answer (%s). It counts as empty until it does; it is tried every %g s.",
                self._name, why, self._rest,
            )  # fmt: skip

    def worked(self) -> None:
        """Note a request that was answered."""
        with self._guard:
            known, self._down = self._down, False
        if known:
            logger.warning("The shared tier %s answers again.", self._name)
