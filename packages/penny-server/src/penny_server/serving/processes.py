"""Child processes that end with us, and ending all of them."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

GUARD_MODULE = "penny_server.serving.guard"
PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
KILL_S = 20.0
SIGNAL_BASE = 128
"""A server ended by signal n makes its guard end with this plus n, as shells do."""

_libc = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Makes orphaned descendants of this process its own children, so that none can slip away (prctl(2))."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def dies_with_parent(number: signal.Signals) -> Callable[[], None]:
    """A ``preexec_fn`` that makes the kernel send signal ``number`` to the child when this process dies.

    Only for processes with one thread: ``preexec_fn`` forks, and the signal is tied to the thread that does.
    """
    parent = os.getpid()

    def in_child() -> None:
        _libc.prctl(PR_SET_PDEATHSIG, number, 0, 0, 0)
        if os.getppid() != parent:  # the parent died before the line above
            os._exit(1)

    return in_child


def start(command: Sequence[str], log: Path, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Starts ``command`` under a guard in a session of its own, output to ``log`` (see `guard`)."""
    with open(log, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as output:
        return subprocess.Popen(
            [sys.executable, "-m", GUARD_MODULE, *command],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(env),
            start_new_session=True,
            preexec_fn=dies_with_parent(signal.SIGHUP),
        )


def stop(child: subprocess.Popen[bytes], grace_s: float, hurry: Callable[[], bool]) -> None:
    """Asks the server to end, and kills what is left after ``grace_s`` seconds.

    ``hurry`` is asked several times a second; when it returns True the rest is killed at once.
    """
    if child.poll() is None:
        child.terminate()
        deadline = time.monotonic() + grace_s
        while child.poll() is None and time.monotonic() < deadline and not hurry():
            time.sleep(0.05)
    kill_descendants()
    child.wait()


def kill_descendants() -> None:
    """Kills every descendant of this process, whatever session or group it is in, until none is left.

    After `KILL_S` seconds it gives up: a process that hangs in a device driver cannot be killed.
    """
    me = psutil.Process()
    deadline = time.monotonic() + KILL_S
    while time.monotonic() < deadline:
        living = [p for p in me.children(recursive=True) if _alive(p)]
        if not living:
            return
        for process in living:
            try:
                process.kill()
            except psutil.NoSuchProcess:
                continue
        psutil.wait_procs(living, timeout=1)


def _alive(process: psutil.Process) -> bool:
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
