"""Requests to object storage that end in time, whatever the storage does."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import Future

from penny_cache.engine.base import Transferred
from penny_cache.store.memory import Buffer
from penny_cache.tier.health import Health
from penny_cache.tier.objects import Objects

LARGE = 16 << 20
"""Bytes for which a request has the patience that a small one has."""


class Patience:
    """Asks a storage and waits so long and no longer. What was given up goes on until the storage ends it.

    A process that ends waits for questions: with NIXL up to 30 seconds, where the storage does not answer just then.

    Args:
        objects: the storage.
        health: told of answers that did not come.
        seconds: for a request, for each 16 MiB that it moves.
    """

    def __init__(self, objects: Objects, health: Health, seconds: float) -> None:
        self._objects, self._health, self._seconds = objects, health, seconds

    def exist(self, names: Sequence[str]) -> list[bool] | None:
        """Which objects are there; None if that is not known, or not to be asked now."""
        if self._health.resting:
            return None
        answer: Future[list[bool]] = Future()

        def ask() -> None:
            try:
                answer.set_result(self._objects.exists(names))
            except OSError as error:
                answer.set_exception(error)

        # No daemon: Python would end it within a call of NIXL, and C++ ends the process for that.
        threading.Thread(target=ask, name="penny-cache-tier-question").start()
        try:
            there = answer.result(self._seconds)
        except OSError as error:
            self._failed(error)
            return None
        self._health.worked()
        return there

    def get(self, name: str, buffer: Buffer, start: int, end: int) -> str:
        """Fill the bytes of a buffer with the same bytes of an object; why not, empty if it was done.

        If it was not, the buffer is not the caller's any more: it is given back when nothing writes to it.
        """
        return self._ended(self._objects.get(name, start, buffer.view[start:end]), end - start, buffer)

    def put(self, name: str, buffer: Buffer, size: int) -> str:
        """Write the first `size` bytes of a buffer as an object; as `get`."""
        return self._ended(self._objects.put(name, buffer.view[:size]), size, buffer)

    def _ended(self, transfer: Transferred, size: int, buffer: Buffer) -> str:
        try:
            transfer.result(self._seconds * max(1.0, size / LARGE))
        except OSError as error:
            transfer.add_done_callback(lambda _: buffer.close())
            if isinstance(error, TimeoutError):
                self._failed(error)
            return self._why(error)
        self._health.worked()
        return ""

    def _failed(self, error: OSError) -> None:
        self._health.failed(self._why(error))

    def _why(self, error: OSError) -> str:
        return f"no answer in {self._seconds:g} s" if isinstance(error, TimeoutError) else str(error)
