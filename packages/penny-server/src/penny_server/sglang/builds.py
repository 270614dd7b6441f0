"""Kernels that are compiled while the server starts, as events: Triton's through its own listener, FlashInfer's
through its log. Nothing is wrapped."""

from __future__ import annotations

import logging
import sys
import threading
from collections.abc import Callable
from typing import Any

from penny_server.events import emit
from penny_server.sglang.meter import Throttle

KERNELS = "kernels"
"""Name of the events; they are no phase, because kernels are built in several."""
FLASHINFER_LOG = "flashinfer.jit.core"
BUILDING = "Building JIT module"
"""How FlashInfer's message begins when it compiles a module that was not in its cache."""


class Builds:
    """Counts what was compiled and tells it, at most five times a second."""

    def __init__(self) -> None:
        self._throttle = Throttle()
        self._lock = threading.Lock()
        self._count = 0
        self._seconds = 0.0

    def built(self, name: str, seconds: float) -> None:
        """A kernel was compiled."""
        with self._lock:
            self._count += 1
            self._seconds += seconds
            due = self._throttle.due()
        if due:
            self.tell(name)

    def begins(self, name: str) -> None:
        """A kernel that takes minutes is about to be compiled: told at once, its time is not known."""
        with self._lock:
            self._count += 1
        self.tell(name)

    def tell(self, name: str = "") -> None:
        """Emits the count so far, if there is anything to tell."""
        if self._count:
            latest = {"name": name} if name else {}
            emit(KERNELS, "progress", built=self._count, seconds=round(self._seconds, 3), **latest)


class BuildLog(logging.Handler):
    """Takes FlashInfer's message about a module that it compiles."""

    def __init__(self, builds: Builds) -> None:
        super().__init__(logging.INFO)
        self._builds = builds

    def emit(self, record: logging.LogRecord) -> None:
        """See `logging.Handler.emit`."""
        if str(record.msg).startswith(BUILDING) and record.args:
            self._builds.begins(str(record.args[0] if isinstance(record.args, tuple) else record.args))


def triton_listener(builds: Builds, before: Callable[..., Any] | None = None) -> Callable[..., None]:
    """A listener for ``triton.knobs.compilation``; ``before`` is the one that was there, which still hears all."""

    def listen(*, src: Any, metadata: Any, metadata_group: Any, times: Any, cache_hit: bool) -> None:
        if before is not None:
            before(
                src=src, metadata=metadata, metadata_group=metadata_group, times=times, cache_hit=cache_hit
            )
        if not cache_hit:
            builds.built(str(getattr(src, "name", "")), times.total / 1e6)

    return listen


def watch(builds: Builds) -> None:
    """From now on kernels that this process compiles are counted; call it once, where there is a GPU."""
    import triton

    compilation = triton.knobs.compilation
    compilation.listener = triton_listener(builds, compilation.listener)
    flashinfer = sys.modules.get(FLASHINFER_LOG)
    if flashinfer is not None:
        flashinfer.logger.addHandler(BuildLog(builds))
