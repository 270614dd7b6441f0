"""The servers that were started on this machine: what their run folders say, and which of them live."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import psutil

from penny_server.errors import ExitCode, PennyError
from penny_server.serving.phases import EventTail, Progress
from penny_server.serving.rundir import RunDir, runs_folder

STATE_FILE = "state.json"
KEEP = 20
"""Run folders of ended servers that are kept."""

RunState = Literal["starting", "ready", "stopping", "stopped", "failed", "lost"]
ENDED: tuple[RunState, ...] = ("stopped", "failed", "lost")
SAME_PROCESS_S = 1.0


@dataclass(frozen=True, kw_only=True)
class Run:
    """One server.

    Attributes:
        folder: its run folder.
        profile, device, url, model: what it serves, and where.
        state: ``lost`` when its ``penny serve`` is gone and had no time to say so.
        pid: of its ``penny serve``.
        born: when that process began (seconds since the epoch), by which it is told from a later one of the same pid.
        started, ready, ended: seconds since the epoch; None for what has not happened.
        notes: what the start had to say, such as the difference between plan and reality.
    """

    folder: Path
    profile: str
    device: str
    url: str
    model: str
    state: RunState
    pid: int
    born: float
    started: float
    ready: float | None = None
    ended: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def alive(self) -> bool:
        """Whether its ``penny serve`` still runs."""
        return self.state not in ENDED

    def document(self) -> dict[str, Any]:
        """The run as plain data."""
        return {**asdict(self), "folder": str(self.folder), "notes": list(self.notes)}


class RunRecord:
    """Keeps the state of this process's own run in its folder, each change written whole."""

    def __init__(self, run_dir: RunDir, profile: str, device: str, url: str, model: str) -> None:
        me = psutil.Process()
        self._run = Run(
            folder=run_dir.path,
            profile=profile,
            device=device,
            url=url,
            model=model,
            state="starting",
            pid=me.pid,
            born=me.create_time(),
            started=time.time(),
        )
        self._write()

    def ready(self, notes: tuple[str, ...] = ()) -> None:
        """The server answers."""
        self._change(replace(self._run, state="ready", ready=time.time(), notes=notes))

    def stopping(self) -> None:
        """The server was asked to end."""
        self._change(replace(self._run, state="stopping"))

    def ended(self, well: bool) -> None:
        """Nothing of the server is left."""
        self._change(replace(self._run, state="stopped" if well else "failed", ended=time.time()))

    def _change(self, run: Run) -> None:
        self._run = run
        self._write()

    def _write(self) -> None:
        file, name = tempfile.mkstemp(dir=self._run.folder, prefix=".state.")
        with os.fdopen(file, "w", encoding="utf-8") as stream:
            json.dump(self._run.document(), stream)
        os.replace(name, self._run.folder / STATE_FILE)


def read_run(folder: Path) -> Run | None:
    """The run of a folder; None if it is no run folder of this version."""
    try:
        data = json.loads((folder / STATE_FILE).read_text(encoding="utf-8"))
        run = Run(**{**data, "folder": folder, "notes": tuple(data["notes"])})
    except (OSError, ValueError, TypeError, KeyError):  # another folder, or one that is being removed
        return None
    return replace(run, state="lost") if run.alive and not _lives(run) else run


def list_runs(base: Path | None = None) -> list[Run]:
    """All runs that have a folder in ``base`` (default: where ``penny serve`` puts them), the latest last."""
    folder = (base or runs_folder()).expanduser()
    found = [read_run(path) for path in folder.iterdir()] if folder.is_dir() else []
    return sorted((run for run in found if run), key=lambda run: run.started)


def choose_run(runs: list[Run], which: str | None) -> Run:
    """The one living run that ``which`` names: a profile, a port or a run folder; without it, the only one.

    Raises PennyError when none or several fit.
    """
    living = [run for run in runs if run.alive]
    fitting = [run for run in living if which is None or which in names(run)]
    if len(fitting) == 1:
        return fitting[0]
    known = ", ".join(f"{run.profile} on {run.url}" for run in living) or "none"
    if not fitting:
        what = "No server runs" if which is None else f"No running server is called {which!r}"
        raise PennyError(f"{what}.", ExitCode.ENVIRONMENT, f"Running: {known}.")
    raise PennyError(
        f"{len(fitting)} servers run: {known}.", ExitCode.USAGE, "Name one by its port, or pass --all."
    )


def names(run: Run) -> set[str]:
    """What a run may be called on the command line."""
    return {run.profile, run.url.rpartition(":")[2], run.url, str(run.pid), run.folder.name, str(run.folder)}


def run_backends(run: Run) -> dict[str, str]:
    """The implementation that each operation of a run got; empty for one that did not come so far."""
    progress = Progress(run.started)
    for event in EventTail(RunDir(run.folder).events).new():
        progress.apply(event)
    return progress.backends


def stop_run(run: Run, now: bool, patience_s: float, waited: Callable[[float], None] | None = None) -> bool:
    """Asks a run to end and waits until it has; ``now`` cuts its streams.

    ``waited`` is called about ten times a second with the seconds so far. Returns whether it ended within
    ``patience_s`` seconds.
    """
    began = time.monotonic()
    with contextlib.suppress(ProcessLookupError):
        os.kill(run.pid, signal.SIGTERM)
        if now:
            time.sleep(0.2)
            os.kill(run.pid, signal.SIGTERM)
    while _lives(run):
        seconds = time.monotonic() - began
        if seconds > patience_s:
            return False
        if waited:
            waited(seconds)
        time.sleep(0.1)
    return True


def prune(base: Path | None = None, keep: int = KEEP) -> list[Path]:
    """Removes the oldest folders of ended runs beyond ``keep``; returns what was removed."""
    old = [run.folder for run in list_runs(base) if not run.alive]
    removed = old[: max(0, len(old) - keep)]
    for folder in removed:
        shutil.rmtree(folder, ignore_errors=True)
    return removed


def _lives(run: Run) -> bool:
    try:
        process = psutil.Process(run.pid)
        same = abs(process.create_time() - run.born) < SAME_PROCESS_S
        return same and process.status() != psutil.STATUS_ZOMBIE
    except psutil.Error:
        return False
