"""What comes back for one request: events, an error page, or the end of the connection."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from penny_bench.client.sse import EventDecoder
from penny_bench.client.timeline import Timeline

PAGE = 1 << 16
"""Of the page that comes with an error, so much is read for its reason, bytes."""


class Exchange:
    """Feed it the answer to one request as it comes; it fills the timeline.

    Attributes:
        timeline: what is known so far.
        clock: seconds since the start of the group.
        offset: that clock minus `time.perf_counter()`, s.
        begun: whether the head of the answer has come.
        over: whether nothing further is wanted; the connection may then be dropped.
    """

    def __init__(self, timeline: Timeline, clock: Callable[[], float]) -> None:
        self.timeline, self.clock, self.offset = timeline, clock, _offset(clock)
        self.begun = self.over = False
        self._status, self._events = 200, 0
        self._decoder = EventDecoder()
        self._page, self._keep = b"", False

    def head(self, status: int, content_type: str) -> None:
        """The HTTP status and the type of the body, before the body."""
        self._status, self.begun = status, True
        self._keep = status != 200 or "json" in content_type.lower()

    def body(self, t: float, data: bytes) -> None:
        """A part of the body that came at `t` seconds."""
        if self._keep and len(self._page) < PAGE:
            self._page += data
        if self._status != 200:
            return
        self.timeline.byte(t)
        try:
            for event in self._decoder.feed(data):
                self._events += 1
                if event.strip() == "[DONE]":
                    self.timeline.done()
                else:
                    self.timeline.event(t, json.loads(event))
        except ValueError as error:  # not UTF-8, not JSON
            self.timeline.fail("protocol", f"The server sent a malformed event: {error}.")
            self.over = True

    def end(self) -> None:
        """The body is complete."""
        if self._status != 200:
            why = f"The server answered with HTTP {self._status}: {_reason(self._page)}"
            self.timeline.fail("http", why, self._status)
        elif self._page and not self._events:
            why = f"The server answered with one JSON document and not with a stream: {_reason(self._page)}"
            self.timeline.fail("protocol", why)

    def lost(self, why: str) -> None:
        """The connection failed before the end; `why` is what is known of the reason."""
        self.timeline.fail("connection", f"The connection failed ({why}).")

    def silent(self, why: str) -> None:
        """The server said nothing for too long."""
        self.timeline.fail("timeout", f"The server was silent for too long ({why}).")


def _offset(clock: Callable[[], float]) -> float:
    """The clock against `time.perf_counter()`; the closest of three looks, as a process may be put aside in one."""
    looks = [(time.perf_counter(), clock(), time.perf_counter()) for _ in range(3)]
    before, now, after = min(looks, key=lambda look: look[2] - look[0])
    return now - (before + after) / 2


def _reason(page: bytes) -> str:
    try:
        answer: Any = json.loads(page)
        error = answer.get("error", answer)
        return str(error.get("message", error) if isinstance(error, dict) else error)[:300]
    except (ValueError, AttributeError):
        return page[:300].decode(errors="replace") or "(no reason given)"
