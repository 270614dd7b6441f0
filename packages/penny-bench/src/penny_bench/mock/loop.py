"""An event loop whose timers are exact to well below a millisecond."""

from __future__ import annotations

import asyncio
import select
import selectors
from typing import Any

MANY = 1024
"""`select` takes no file descriptor from this on (FD_SETSIZE)."""


class _ExactSelector(selectors.EpollSelector):
    """Waits with `select`, which counts microseconds; epoll rounds every wait up to whole milliseconds."""

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is not None and timeout > 0 and self.fileno() < MANY:
            select.select([self.fileno()], [], [], timeout)
            timeout = 0
        found: Any = super().select(timeout)
        return list(found)


def exact_loop() -> asyncio.AbstractEventLoop:
    """A new event loop with exact timers."""
    return asyncio.SelectorEventLoop(_ExactSelector())
