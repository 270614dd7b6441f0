"""GPU states over time, from a thread of its own, so that a busy event loop delays none."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from types import TracebackType

from penny_bench.evidence.nvml import Gpu, GpuState, Nvml

INTERVAL = 0.5
"""Pause between samples, s. NVML itself renews the power reading every 0.02 to 0.1 s."""


@dataclass(frozen=True)
class GpuSample:
    """One GPU at one moment.

    Attributes:
        t: `time.perf_counter()` then.
        gpu: its index.
        state: what it was doing.
    """

    t: float
    gpu: int
    state: GpuState


class GpuSampler:
    """Samples while it is open (`with`). It closes its NVML; without one it has no GPUs.

    Attributes:
        gpus: those of this machine.
        samples: in order of time.
    """

    def __init__(self, nvml: Nvml | None, interval: float = INTERVAL) -> None:
        self.gpus: list[Gpu] = nvml.gpus() if nvml else []
        self.samples: list[GpuSample] = []
        self._nvml = nvml
        self._interval = interval
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def __enter__(self) -> GpuSampler:
        if self._nvml and self.gpus:
            self._thread = threading.Thread(target=self._work, args=(self._nvml,), daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread:
            self._thread.join()
        if self._nvml:
            self._nvml.close()

    def _work(self, nvml: Nvml) -> None:
        while True:
            for gpu in self.gpus:
                self.samples.append(GpuSample(time.perf_counter(), gpu.index, nvml.state(gpu.index)))
            if self._stop.wait(self._interval):
                return
