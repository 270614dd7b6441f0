"""What is due when, for thousands of streams with one timer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from math import isinf

AT_ONCE = 64
"""After so many actions the event loop may look at its connections."""


class Agenda:
    """Calls each action at its time. All times are of `time.perf_counter()`, s."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._due: list[tuple[float, int, Callable[[float], None]]] = []
        self._numbers = count()  # keeps the order of those that are due together
        self._timer: asyncio.Handle | None = None
        self._timer_at = float("inf")

    def add(self, t: float, action: Callable[[float], None]) -> None:
        """Call `action(t)` at `t`, or never if that is infinite."""
        if isinf(t):
            return
        heappush(self._due, (t, next(self._numbers), action))
        if t < self._timer_at:
            self._arm()

    def close(self) -> None:
        """Forget everything."""
        self._due.clear()
        if self._timer:
            self._timer.cancel()

    def _arm(self) -> None:
        if self._timer:
            self._timer.cancel()
        self._timer_at = self._due[0][0] if self._due else float("inf")
        wait = self._timer_at - time.perf_counter()
        if isinf(wait):
            self._timer = None
        elif wait > 0:
            self._timer = self._loop.call_later(wait, self._work)
        else:
            self._timer = self._loop.call_soon(self._work)

    def _work(self) -> None:
        self._timer_at = -float("inf")  # what actions add waits for the end of this
        for _ in range(AT_ONCE):
            if not self._due or self._due[0][0] > time.perf_counter():
                break
            t, _, action = heappop(self._due)
            action(t)
        self._arm()
