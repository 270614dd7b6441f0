"""Child processes that end with us, and ending all of them."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import psutil

PR_SET_PDEATHSIG = 1
PR_SET_CHILD_SUBREAPER = 36
KILL_S = 20.0

_libc = ctypes.CDLL(None, use_errno=True)


def adopt_orphans() -> None:
    """Makes orphaned descendants of this process its own children, so that none can slip away (prctl(2))."""
    _libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)


def start(argv: Sequence[str], log: Path, env: Mapping[str, str]) -> subprocess.Popen[bytes]:
    """Starts ``argv`` in a session of its own, output to ``log``; the kernel kills it if this process dies.

    The kernel does that for the server's main process only; SGLang's scheduler and detokenizer ask for the
    same with regard to the main process, so they follow. Call it from a process with one thread (it forks).
    """
    parent = os.getpid()

    def in_child() -> None:
        _libc.prctl(PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
        if os.getppid() != parent:  # the parent died before the line above
            os._exit(1)

    with open(log, "ab", opener=lambda path, flags: os.open(path, flags, 0o600)) as output:
        return subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            env=dict(env),
            start_new_session=True,
            preexec_fn=in_child,
        )


def stop(child: subprocess.Popen[bytes], grace_s: float, hurry: Callable[[], bool]) -> None:
    """Asks the server's main process to end, and kills what is left after ``grace_s`` seconds.

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
