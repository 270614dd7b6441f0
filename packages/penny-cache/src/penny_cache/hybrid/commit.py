"""When a prefix may be written: after the forward that made it, and never twice."""

from __future__ import annotations

from collections import deque
from collections.abc import Hashable
from dataclasses import dataclass


@dataclass(frozen=True)
class Commit:
    """A prefix that waits to be written.

    Attributes:
        key: of its last page.
        forward: number of the forward pass that writes its state on the device.
    """

    key: Hashable
    forward: int


class Committer:
    """Holds what may not be written yet. One per device stream; not for several threads.

    A prefix is known to the scheduler when its forward is *started*. Its pages are copied from the device, so what is
    copied before the forward is done is the state of another request (a public system restored such prefixes). Forwards
    end in the order in which they were started.
    """

    def __init__(self) -> None:
        self._waiting: deque[Commit] = deque()
        self._done = -1

    def __len__(self) -> int:
        """Prefixes that wait."""
        return len(self._waiting)

    def started(self, key: Hashable, forward: int) -> None:
        """Note that a forward that was started will have written a prefix.

        Raises:
            ValueError: the forward was started before one that was noted already.
        """
        if self._waiting and forward < self._waiting[-1].forward:
            raise ValueError(
                f"Forward {forward} was started after {self._waiting[-1].forward}; forwards are noted in order."
            )
        self._waiting.append(Commit(key, forward))

    def dropped(self, key: Hashable) -> None:
        """Note that a prefix is not to be written after all: its request was retracted, or its pages are used again."""
        self._waiting = deque(commit for commit in self._waiting if commit.key != key)

    def finished(self, forward: int) -> list[Commit]:
        """Note that all forwards up to this one are done; what may be written now, each once, oldest first."""
        self._done = max(self._done, forward)
        ready: list[Commit] = []
        while self._waiting and self._waiting[0].forward <= self._done:
            ready.append(self._waiting.popleft())
        return ready
