"""A command with all that it starts, in a process group of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from penny_bench.abba.interrupts import POLL, Interrupts
from penny_bench.errors import BenchError

LAST_LINES = 12
LAST_BYTES = 8192
KILLED = 10.0
"""Longest wait for the end of processes that were killed, s."""


class Process:
    """A started command.

    Attributes:
        log: file that takes its output and its errors.
    """

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        env: Mapping[str, str] | None = None,
        folder: Path | None = None,
    ) -> None:
        """Start `command` in a session of its own, so that Ctrl-C in this terminal does not reach it.

        Args:
            command: program and arguments.
            log: for its output; written anew.
            env: variables beside those of this process.
            folder: to start it in.

        Raises:
            BenchError: it cannot be started.
            OSError: the log cannot be written.
        """
        self.log = log
        with log.open("wb") as stream:
            try:
                self._child = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=stream,
                    stderr=subprocess.STDOUT,
                    env={**os.environ, **(env or {})},
                    cwd=folder,
                    start_new_session=True,
                )
            except OSError as error:
                raise BenchError(f"Could not start {command[0]}: {error.strerror}.") from error

    @property
    def status(self) -> int | None:
        """Exit status of the command; negative for a signal, None while it runs."""
        return self._child.poll()

    def wait(self, seconds: float, interrupts: Interrupts) -> int | None:
        """Exit status, or None if it still runs after so many seconds.

        Raises:
            KeyboardInterrupt: a signal came meanwhile.
        """
        end = time.monotonic() + seconds
        while self.status is None and time.monotonic() < end:
            interrupts.check()
            time.sleep(POLL)
        return self.status

    def stop(self, seconds: float, interrupts: Interrupts) -> None:
        """End the group: SIGINT, then SIGTERM, then SIGKILL, each given so many seconds.

        Another signal meanwhile kills it at once.
        """
        seen = interrupts.count
        for number in (signal.SIGINT, signal.SIGTERM):
            if interrupts.count == seen and self._running():
                self._signal(number)
                end = time.monotonic() + seconds
                while self._running() and interrupts.count == seen and time.monotonic() < end:
                    time.sleep(POLL)
        if self._running():
            self._signal(signal.SIGKILL)
            end = time.monotonic() + KILLED
            while self._running() and time.monotonic() < end:
                time.sleep(POLL)

    def last_lines(self) -> str:
        """The end of the log, each line indented; a sentence if there is none."""
        with self.log.open("rb") as stream:
            stream.seek(max(0, self.log.stat().st_size - LAST_BYTES))
            lines = stream.read().decode(errors="replace").split("\n")
        kept = [line.rstrip() for line in lines if line.strip()][-LAST_LINES:]
        return (
            "\n".join(["Its last lines:", *(f"  {line}" for line in kept)]) if kept else "It wrote nothing."
        )

    def _signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):  # it has just ended
            os.killpg(self._child.pid, number)

    def _running(self) -> bool:
        """Whether a process of the group is left; one that has ended and that nobody waits for is none."""
        self._child.poll()
        if not Path("/proc/self/stat").exists():
            try:
                os.killpg(self._child.pid, 0)
            except (ProcessLookupError, PermissionError):
                return False
            return True
        return any(_group_of_living(stat) == self._child.pid for stat in Path("/proc").glob("[0-9]*/stat"))


def _group_of_living(stat: Path) -> int | None:
    """Process group of a process that has not ended; proc_pid_stat(5): state, parent, group follow the name."""
    try:
        state, _, group = stat.read_text(errors="replace").rpartition(")")[2].split()[:3]
    except (OSError, ValueError):  # it has ended meanwhile
        return None
    return None if state in "ZX" else int(group)
