"""Transfers of one NIXL agent as futures, with a bounded number of pieces under way."""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from penny_cache.engine.agent import Agent, Piece
from penny_cache.engine.base import Transferred

SHORTEST_PAUSE, LONGEST_PAUSE = 50e-6, 2e-3
"""Seconds between two looks at what is under way; NIXL has nothing to wait on."""


@dataclass
class Job:
    """One transfer.

    Attributes:
        write: to the file or object, else from it.
        number: that the file or object was registered under.
        waiting: pieces that were not started.
        memory: holds the memory of the pieces; dropped, as `failed` is, before the future is done.
        failed: called in the pump's thread with the error of a transfer that failed and has nothing under way any
            more. Does the work in another way, or raises the error that the future gets.
    """

    write: bool
    number: int
    waiting: deque[Piece]
    memory: list[Any]
    failed: Callable[[OSError], None]
    future: Transferred = field(default_factory=Transferred)
    handles: int = 0
    error: OSError | None = None


_pumps: weakref.WeakSet[Pump] = weakref.WeakSet()


class Pump:
    """One thread that posts pieces in the order in which they came, and looks after those under way.

    Args:
        agent: of the pump alone, as far as transfers go. NIXL 1.5.1 loses places of its queue when it is asked for more
            than it has, so it must have at least `depth`.
        depth: pieces under way.
        name: of the thread.
    """

    def __init__(self, agent: Agent, depth: int, name: str) -> None:
        self._agent, self._depth = agent, depth
        self._changed = threading.Condition()
        self._new: deque[Job] = deque()
        self._closing = False
        self._waiting: deque[Job] = deque()
        self._under_way: list[tuple[Any, Job, int]] = []
        self._used = 0
        self._abandoned = False
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()
        _pumps.add(self)

    def submit(
        self,
        write: bool,
        number: int,
        pieces: Sequence[Piece],
        memory: list[Any],
        failed: Callable[[OSError], None],
    ) -> Transferred:
        """Start a transfer; see `Job`. A future of this kind cannot be cancelled."""
        job = Job(write, number, deque(pieces), memory, failed)
        job.future.set_running_or_notify_cancel()
        with self._changed:
            if self._closing:
                raise RuntimeError("The engine was shut down.")
            self._new.append(job)
            self._changed.notify_all()
        return job.future

    def close(self, timeout: float | None = None) -> bool:
        """Take nothing more; wait until what was taken is done, and say whether it is."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join(timeout)
        return not self._thread.is_alive()

    def abandon(self) -> None:
        """End the thread, whatever is under way; nothing hears of it any more. For the end of the process only."""
        with self._changed:
            self._closing = self._abandoned = True
            self._changed.notify_all()
        self._thread.join()

    def _run(self) -> None:
        looked = last_end = time.perf_counter()
        pace, pause = 0.0, SHORTEST_PAUSE
        while True:
            with self._changed:
                if not self._waiting and not self._under_way:
                    self._changed.wait_for(lambda: self._new or self._closing)
                    last_end = time.perf_counter()
                elif not self._new:
                    self._changed.wait(looked + pause - time.perf_counter())
                self._waiting.extend(self._new)
                self._new.clear()
                if self._abandoned or (not self._waiting and not self._under_way):
                    return
            self._start()
            now = time.perf_counter()
            if self._under_way and now < looked + pause:
                continue
            looked = now
            if ended := self._look():
                # Two looks for each transfer that ends, at the pace of late.
                pace += ((now - last_end) / ended - pace) / 4
                last_end = now
                pause = min(max(pace / 2, SHORTEST_PAUSE), LONGEST_PAUSE)
            else:
                pause = min(1.5 * pause, LONGEST_PAUSE)

    def _start(self) -> None:
        while self._waiting and self._used < self._depth:
            job = self._waiting[0]
            count = min(len(job.waiting), self._depth - self._used)
            pieces = [job.waiting.popleft() for _ in range(count)]
            if not job.waiting:
                self._waiting.popleft()
            if not pieces:
                self._end(job)
                continue
            try:
                handle = self._agent.post(job.write, job.number, pieces)
            except OSError as error:
                self._spoil(job, error)
                if not job.handles:
                    self._end(job)
                continue
            job.handles += 1
            self._used += count
            self._under_way.append((handle, job, count))

    def _look(self) -> int:
        """See what is done; how much is."""
        left: list[tuple[Any, Job, int]] = []
        for handle, job, count in self._under_way:
            try:
                if not self._agent.done(handle):
                    left.append((handle, job, count))
                    continue
            except OSError as error:
                self._spoil(job, error)
            self._used -= count
            job.handles -= 1
            if not job.handles and not job.waiting:
                self._end(job)
        ended = len(self._under_way) - len(left)
        self._under_way = left
        return ended

    def _spoil(self, job: Job, error: OSError) -> None:
        job.error = error
        if job.waiting:
            job.waiting.clear()
            self._waiting.remove(job)

    def _end(self, job: Job) -> None:
        error: BaseException | None = None
        if job.error is not None:
            try:
                job.failed(job.error)
            except Exception as reason:  # noqa: BLE001 - it belongs to whoever waits for the future
                error = reason
        # Whoever waits may give the memory to others at once.
        job.memory.clear()
        job.failed = _nothing_left
        if error is None:
            job.future.set_result(None)
        else:
            job.future.set_exception(error)


@atexit.register
def _abandon_all() -> None:
    """Python would end a thread within a call of NIXL, and C++ would end the process with SIGABRT for that."""
    for pump in list(_pumps):
        pump.abandon()


def _nothing_left(error: OSError) -> None:
    raise AssertionError("A transfer ended twice.") from error
