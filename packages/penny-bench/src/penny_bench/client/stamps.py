"""When bytes arrived, as the kernel saw it: an event loop that is busy with others does not delay the stamp.

Linux notes the time of each TCP segment that it receives and gives it with the data (SO_TIMESTAMPNS, see
`Documentation/networking/timestamping.rst` of the kernel; for TCP since Linux 4.15).
"""

from __future__ import annotations

import socket
import struct
import sys
import time
from collections.abc import Callable

SO_TIMESTAMPNS = 35
"""From the kernel's `asm-generic/socket.h`; Python has no name for it."""
SPACE = socket.CMSG_SPACE(16)
"""Room for the stamp beside the data, bytes."""
STEP = 1e-3
"""A change of the wall clock against the monotonic one by more than this is a step, s."""
DRIFT = 1e-3
"""Change of one clock against the other that is no step: what adjusting the rate may do, s/s."""
DISTRUST = 1.0
"""For so long after a step the stamps are not used: data from before it may still wait, s."""

TOGETHER = 2e-5
"""Two looks at clocks within this are at one moment, s."""
TRIES = 3

_TIMESPEC = struct.Struct("=qq")


class Stamps:
    """Turns the kernel's stamps, which are of the wall clock, into times of a clock that is never set.

    Attributes:
        used: reads whose time came from the kernel.

    Args:
        wall: the clock of the stamps, s.
        monotonic: the clock of the results, s.
    """

    def __init__(
        self, wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.perf_counter
    ) -> None:
        self.used = 0
        self._wall, self._monotonic = wall, monotonic
        self._seen = monotonic()
        self._offset = wall() - self._seen
        self._trusted_from = -float("inf")

    def switch_on(self, connection: socket.socket) -> bool:
        """Ask for stamps on a connection; false where the system has none."""
        if not sys.platform.startswith("linux") or sys.maxsize < 2**32:
            return False
        try:
            connection.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
        except OSError:
            return False
        return True

    def came(self, ancillary: list[tuple[int, int, bytes]]) -> float:
        """When the data came that `recvmsg` gave with these control messages, s; now, if that is not known."""
        now, wall = self._both()
        offset = wall - now
        if abs(offset - self._offset) > STEP + DRIFT * (now - self._seen):
            self._trusted_from = now + DISTRUST
        self._offset, self._seen = offset, now
        if now < self._trusted_from:
            return now
        for level, kind, data in ancillary:
            if level == socket.SOL_SOCKET and kind == SO_TIMESTAMPNS and len(data) == _TIMESPEC.size:
                seconds, nanoseconds = _TIMESPEC.unpack(data)
                self.used += 1
                age: float = wall - seconds - nanoseconds * 1e-9
                return now - max(0.0, age)
        return now

    def _both(self) -> tuple[float, float]:
        """Both clocks at one moment; a process that is put aside between two looks must look again."""
        for _ in range(TRIES):
            before, wall, after = self._monotonic(), self._wall(), self._monotonic()
            if after - before < TOGETHER:
                break
        return after, wall
