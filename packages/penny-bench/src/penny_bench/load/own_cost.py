"""What the client itself took, so that nobody blames the server for it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass

from penny_bench.load.summary import Distribution

PAUSE = 0.02
"""How long the probe of the event loop sleeps, s."""


@dataclass(frozen=True)
class OwnCost:
    """The client's own cost.

    Attributes:
        cpu_seconds: processor time of this process, all threads, s.
        cores: that divided by the wall time.
        loop_lag: how much too late the event loop woke a task, s. An arrival may be off by that where it has no
            stamp of the kernel (TLS, a proxy); where it has one, two events closer together than the lag may count
            as one.
        lateness: sent minus scheduled, s; None for a closed loop, which has no schedule.
    """

    cpu_seconds: float
    cores: float
    loop_lag: Distribution | None
    lateness: Distribution | None


class LoopProbe:
    """Samples of the event loop's lag; run `watch` as a task beside the work."""

    def __init__(self, clock: Callable[[], float]) -> None:
        self.lags: list[float] = []
        self._clock = clock
        self._cpu = time.process_time()

    async def watch(self) -> None:
        """Sample until cancelled."""
        while True:
            asleep = self._clock()
            await asyncio.sleep(PAUSE)
            self.lags.append(self._clock() - asleep - PAUSE)

    def cost(self, seconds: float, lateness: list[float]) -> OwnCost:
        """The cost over `seconds` of wall time since the probe was made."""
        cpu = time.process_time() - self._cpu
        return OwnCost(
            cpu, cpu / seconds if seconds > 0 else 0.0, Distribution.of(self.lags), Distribution.of(lateness)
        )
