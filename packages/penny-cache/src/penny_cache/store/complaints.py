"""Log lines about what goes on failing: the first at once, then one a while that counts the others."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

logger = logging.getLogger(__name__)

PAUSE = 10.0
"""Seconds between two lines."""


class Complaints:
    """Complains in the log.

    Args:
        what: start of each line.
        clock: s; it must not jump.
    """

    def __init__(self, what: str, clock: Callable[[], float] = time.monotonic) -> None:
        self._what, self._clock = what, clock
        self._guard = threading.Lock()
        self._next = float("-inf")
        self._held = 0

    def about(self, why: str) -> None:
        """Log a line, unless there was one just now; then it is counted in the next."""
        with self._guard:
            now = self._clock()
            if now < self._next:
                self._held += 1
                return
            held, self._held, self._next = self._held, 0, now + PAUSE
        others = f" (and {held:,} more since the last line)" if held else ""
        logger.warning("%s: %s%s", self._what, why, others)
