"""Runs one server from its start to its end."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

from penny_server.errors import ExitCode, PennyError
from penny_server.plan import Plan
from penny_server.profiles import Launch
from penny_server.serving import processes
from penny_server.serving.asserting import check_asserts, proven_seams, refuse
from penny_server.serving.diagnose import explain, log_tail
from penny_server.serving.display import Display
from penny_server.serving.identity import Identity
from penny_server.serving.live import fetch
from penny_server.serving.phases import EventTail, Progress
from penny_server.serving.reality import compare, measured, summary
from penny_server.serving.rundir import RunDir, run_env
from penny_server.serving.runs import RunRecord, prune

POLL_S = 0.1
FAILED_GRACE_S = 5.0
"""How long a server that reported a failure may take to end by itself."""

STOPPING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """Counts the signals that ask the command to end; the main loop looks at the count."""

    def __init__(self) -> None:
        self.count = 0
        self.name = ""

    def _note(self, number: int, frame: FrameType | None) -> None:
        self.count += 1
        self.name = {signal.SIGINT: "Interrupted"}.get(signal.Signals(number), signal.Signals(number).name)

    @contextmanager
    def caught(self) -> Iterator[None]:
        """While in it, SIGINT, SIGTERM and SIGHUP are counted instead of raised."""
        # Under nohup the command outlives its terminal. SIGINT counts also where a shell had it ignored, as shells
        # do for background jobs: whoever sends it to this process means it.
        nohup = signal.getsignal(signal.SIGHUP) is signal.SIG_IGN
        asked = [number for number in STOPPING_SIGNALS if not (nohup and number == signal.SIGHUP)]
        before = {number: signal.signal(number, self._note) for number in asked}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


@dataclass(frozen=True)
class Expected:
    """What is known before the start: what is served, and the plan or why there is none."""

    identity: Identity
    plan: Plan | None = None
    unplanned: str = ""


def serve(
    launch: Launch, run_dir: RunDir, display: Display, expected: Expected, started: float, grace_s: float
) -> ExitCode:
    """Starts the server, shows its phases, waits, and leaves no process of it behind.

    ``started`` is when the command began (seconds since the epoch), ``grace_s`` how long the server may take to
    end when asked to. Returns OK when a ready server was stopped by a signal and INTERRUPTED when that happened
    during the start. Raises PennyError when the server ends by itself, or is not what the profile asserts.
    """
    interrupts = Interrupts()
    record = RunRecord(run_dir, launch.profile, launch.device, launch.url, launch.model_name)
    prune(run_dir.path.parent)
    progress = Progress(started)
    well = False
    processes.adopt_orphans()
    try:
        with interrupts.caught():
            display.opening(launch, run_dir)
            _identify(expected.identity, display, interrupts, progress)
            env = launch.child_env({**os.environ, **run_env(run_dir)})
            child = processes.start(launch.argv(sys.executable), run_dir.log, env)
            try:
                started_well = _start(child, launch, run_dir, display, interrupts, progress)
                if started_well:
                    record.ready(_judge(launch, run_dir, display, expected, progress))
                    display.ready(launch, time.time() - started)
                    _wait(child, run_dir, display, interrupts)
                record.stopping()
                _stop(child, display, interrupts, grace_s)
                well = True
                return ExitCode.OK if started_well else ExitCode.INTERRUPTED
            finally:
                processes.stop(child, 0, lambda: True)
    finally:
        display.close()
        record.ended(well)


def _wait(child: subprocess.Popen[bytes], run_dir: RunDir, display: Display, interrupts: Interrupts) -> None:
    """Waits for a signal. Raises PennyError when the server ends by itself."""
    while not interrupts.count:
        if child.poll() is not None:
            error = PennyError(
                "The server ended by itself after it was ready.", ExitCode.SERVER, f"Log: {run_dir.log}"
            )
            display.failed(error, log_tail(run_dir.log), run_dir)
            raise error
        time.sleep(POLL_S)


def _identify(identity: Identity, display: Display, interrupts: Interrupts, progress: Progress) -> None:
    """Reads what says which checkpoint this is, and shows how far that is. Raises PennyError (checkpoint)."""
    try:
        for event in identity.events():
            progress.apply(event)
            if event.state != "end":
                display.update(progress)
            if interrupts.count:
                return
    except OSError as error:
        raise PennyError(
            f"{error.filename} cannot be read ({error.strerror}).",
            ExitCode.CHECKPOINT,
            "Check the file and its permissions.",
        ) from error


def _judge(
    launch: Launch, run_dir: RunDir, display: Display, expected: Expected, progress: Progress
) -> tuple[str, ...]:
    """Compares plan and assertions with what the server got; returns what to remember.

    Raises PennyError (server) for an assertion that failed.
    """
    found = measured(progress.measured)
    verdict = check_asserts(launch, found, progress.backends, proven_seams(run_dir.path))
    rows = compare(expected.plan, found) if expected.plan else ()
    display.planned(rows)
    try:
        refuse(launch.profile, verdict)
    except PennyError as error:
        display.failed(error, [], run_dir)
        raise
    unplanned = (f"There is no plan to compare with: {expected.unplanned}",) if expected.unplanned else ()
    return (*summary(rows), *unplanned, *verdict.skipped)


def _start(
    child: subprocess.Popen[bytes],
    launch: Launch,
    run_dir: RunDir,
    display: Display,
    interrupts: Interrupts,
    progress: Progress,
) -> bool:
    """Waits until the server is ready; returns False when interrupted. Raises PennyError when it fails."""
    tail = EventTail(run_dir.events)
    while not interrupts.count:
        ended = child.poll()
        for event in tail.new():
            progress.apply(event)
        display.update(progress)
        if ended is None and progress.failed_for(time.time()) > FAILED_GRACE_S:
            processes.stop(child, 0, lambda: True)
            ended = child.returncode
        if ended is not None:
            progress.fail(time.time())
            display.update(progress)
            error = explain(ended, run_dir.log, progress.failure)
            error.hint = f"{error.hint}\nLog: {run_dir.log}".strip()
            display.failed(error, log_tail(run_dir.log), run_dir)
            raise error
        if progress.announced and fetch(launch.url, "/health") is not None:
            progress.finish(time.time())
            display.update(progress)
            return True
        time.sleep(POLL_S)
    return False


def _stop(child: subprocess.Popen[bytes], display: Display, interrupts: Interrupts, grace_s: float) -> None:
    display.stopping(interrupts.name)
    # The first one brought us here; a second may have come before this line.
    processes.stop(child, grace_s, hurry=lambda: interrupts.count > 1)
    display.stopped()
