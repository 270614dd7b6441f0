"""Runs a plan: every start, every measurement, in order."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from penny_bench.abba.interrupts import Interrupts
from penny_bench.abba.plan import AbbaPlan, MeasurePlan
from penny_bench.abba.process import Process
from penny_bench.abba.record import Record, Step, steps
from penny_bench.abba.server import PATIENCE, refuse_other_server, server
from penny_bench.abba.words import so_far
from penny_bench.compare import Comparison, compare_restarts, read_restart
from penny_bench.errors import BenchError

PROGRAM = [sys.executable, "-P", "-c", "from penny_bench.cli import main; main()"]
LITTLE = 1 << 20
"""Free bytes below which a failed measurement is put down to a full disk."""
LEAVE = 10.0
"""Time that a measurement has to end after a signal, s."""

Tell = Callable[[str], None]


def run_plan(plan: AbbaPlan, record: Record, interrupts: Interrupts, now: Tell, tell: Tell) -> Comparison:
    """Measure what is not yet measured, and compare.

    Args:
        plan: what to run.
        record: its folder; restarts that are finished there are not run again.
        interrupts: entered.
        now: called with what begins.
        tell: called with what shall stay on the screen.

    Raises:
        BenchError: a server or a measurement failed, or the results cannot be compared.
        KeyboardInterrupt: a signal came; the server has been ended.
    """
    wanted = [step for step in steps(plan.restarts) if not record.finished(step)]
    if wanted:
        _interim(plan, record)
    for number, step in enumerate(wanted):
        interrupts.check()
        try:
            if number and plan.pause:
                now(f"pause of {plan.pause:g} s")
                interrupts.sleep(plan.pause)
            seconds = _restart(plan, record, step, interrupts, now, PATIENCE if number else 0.0)
        except OSError as error:
            raise BenchError(
                f"Could not write below {record.folder}: {error.strerror}. The server was ended and the finished "
                f"restarts are kept; run the same command again to go on."
            ) from error
        tell(f"{step.name} measured in {seconds:.0f} s")
        if step != wanted[-1] and (sentence := _interim(plan, record)):
            tell(sentence)
    return _compare(plan, record)


def _restart(
    plan: AbbaPlan, record: Record, step: Step, interrupts: Interrupts, now: Tell, patience: float
) -> float:
    """One start with all its measurements; seconds that it took."""
    url = plan.server(step.side).url
    refuse_other_server(url, interrupts, patience)
    folder = record.begin()
    started, begin = datetime.now(UTC), time.monotonic()
    now(f"{step.name}: starting the server")
    with server(plan, step.side, folder / "server.log", interrupts) as running:
        ready = time.monotonic() - begin
        for measure in plan.measures:
            now(f"{step.name}: {measure.name}")
            _measure(measure, url, folder, step, running, interrupts)
        now(f"{step.name}: stopping the server")
    record.finish(step, started, ready)
    return time.monotonic() - begin


def _measure(
    measure: MeasurePlan, url: str, folder: Path, step: Step, running: Process, interrupts: Interrupts
) -> None:
    words = [*measure.command, "--url", url, "--json", str(folder / f"{measure.name}.json")]
    child = Process([*PROGRAM, *words], folder / f"{measure.name}.txt")
    what = f"{measure.name} of {step.name}"
    end = time.monotonic() + (measure.timeout or float("inf"))
    try:
        while (status := child.wait(1.0, interrupts)) is None:
            if running.status is not None:
                raise BenchError(
                    f"The server of {step.name} ended with status {running.status} during {measure.name}. "
                    f"{running.last_lines()}"
                )
            if time.monotonic() >= end:
                raise BenchError(
                    f"The measurement {what} took over {measure.timeout:g} s. {child.last_lines()}"
                )
    finally:
        child.stop(LEAVE, interrupts)
    if status not in measure.accept:
        full = " The disk is full." if shutil.disk_usage(folder).free < LITTLE else ""
        raise BenchError(
            f"The measurement {what} ended with status {status}, so the restart does not count; the finished ones are "
            f"kept, and the same command goes on with this one.{full} {child.last_lines()}"
        )
    if not (folder / f"{measure.name}.json").exists():
        raise BenchError(f"The measurement {what} wrote no result. {child.last_lines()}")


def _interim(plan: AbbaPlan, record: Record) -> str | None:
    """What can be said while it runs; refuses what cannot be compared as soon as each side has a restart."""
    a, b = (len(record.done(side, plan.restarts)) for side in ("a", "b"))
    if not min(a, b):
        return None
    least = min(a, b)
    return so_far(plan, _compare(plan, record, least if plan.settings.paired else None))


def _compare(plan: AbbaPlan, record: Record, most: int | None = None) -> Comparison:
    a, b = (
        [
            read_restart([folder / f"{measure.name}.json" for measure in plan.measures], str(folder))
            for folder in record.done(side, plan.restarts)[:most]
        ]
        for side in ("a", "b")
    )
    return compare_restarts(a, b, plan.settings)
