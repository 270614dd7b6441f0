"""Ctrl-C and its like, heeded at points where nothing is left half done."""

from __future__ import annotations

import signal
import time
from types import FrameType

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
POLL = 0.1
"""How often a wait looks up, s."""


class Interrupts:
    """Counts signals while it is entered, instead of breaking off whatever runs.

    A signal that was ignored before stays so, as `nohup` wishes, but for SIGINT, which a shell has its
    background commands ignore. Children that are started meanwhile have the default of each signal back.

    Attributes:
        count: how many have come.
    """

    def __init__(self) -> None:
        self.count = 0
        self._before: dict[int, object] = {}

    def __enter__(self) -> Interrupts:
        for number in SIGNALS:
            before = signal.getsignal(number)
            if number == signal.SIGINT or before is not signal.SIG_IGN:
                self._before[number] = signal.signal(number, self._came)
        return self

    def __exit__(self, *exception: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)  # type: ignore[arg-type]

    def check(self) -> None:
        """Stop here if a signal has come.

        Raises:
            KeyboardInterrupt: one has.
        """
        if self.count:
            raise KeyboardInterrupt

    def sleep(self, seconds: float) -> None:
        """Wait, in steps after each of which `check` is asked.

        Raises:
            KeyboardInterrupt: a signal came.
        """
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.check()
            time.sleep(min(POLL, left))
        self.check()

    def _came(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
