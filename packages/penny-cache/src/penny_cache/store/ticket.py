"""What a caller knows of a bundle that it gave to the store."""

from __future__ import annotations

import enum
import threading


class Stage(enum.IntEnum):
    """How far a bundle has come; each stage promises what the ones before do.

    `TAKEN`: the store has a copy in memory, and the caller's buffers are its own again.
    `WRITTEN`: the bundle can be found and read, and outlives this process. A power cut may lose it.
    `DURABLE`: it outlives a power cut.
    """

    TAKEN = 1
    WRITTEN = 2
    DURABLE = 3


class Ticket:
    """Follows one bundle."""

    def __init__(self, wanted: Stage) -> None:
        self.wanted = wanted
        self._stage = Stage.TAKEN
        self._error: Exception | None = None
        self._changed = threading.Condition()

    @property
    def stage(self) -> Stage:
        """How far the bundle has come."""
        return self._stage

    @property
    def error(self) -> Exception | None:
        """Why it goes no further; None while nothing failed."""
        return self._error

    def wait(self, stage: Stage | None = None, timeout: float | None = None) -> bool:
        """Wait for a stage, at first the one that was wanted; False if it was not reached in `timeout` seconds.

        Raises:
            StoreError: it will not be reached.
        """
        until = self.wanted if stage is None else stage
        with self._changed:
            done = self._changed.wait_for(lambda: self._error is not None or self._stage >= until, timeout)
        if self._stage < until and self._error is not None:
            raise self._error
        return done

    def reached(self, stage: Stage) -> None:
        """Note a stage; for the store."""
        with self._changed:
            self._stage = max(self._stage, stage)
            self._changed.notify_all()

    def failed(self, error: Exception) -> None:
        """Note a failure; for the store."""
        with self._changed:
            self._error = error
            self._changed.notify_all()
