"""The campaign of kills: a process that works on a store is killed at random, and the store is judged; again and again
on the same store, which keeps what was in it."""

from __future__ import annotations

import json
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

from penny_cache import namespace
from penny_cache.namespace import Identity, Namespace
from penny_cache.store import open_store
from penny_cache.torture.bystander import reading
from penny_cache.torture.inline import InlineEngine
from penny_cache.torture.ledger import Ledger
from penny_cache.torture.pages import Forest
from penny_cache.torture.result import Progress, Result, silent
from penny_cache.torture.workload import SETTINGS

PHASES = {"opening": (8, 0.03), "working": (250, 0.3), "closing": (14, 0.03), "giving up": (10, 0.1)}
"""Where a child dies: the last of the changes at which it kills itself, and the seconds within which it is killed."""
PATIENCE = 120.0
"""Seconds for all of a process's work."""
ENGINE = "penny_cache.engine:ThreadEngine"


def kills(
    path: Path, count: int, seed: int, progress: Progress = silent, engine: str = ENGINE, steps: int = 120
) -> Result:
    """Kill so many processes that write to one store.

    Half of them are killed from outside after a random time, the others kill themselves at a random change to a file,
    while opening, working, giving space up or closing. A reader is beside them. Each time the store is judged by a
    reader, and every other time by a writer that repairs it; else the next process finds it as the kill left it.

    Args:
        path: an empty or missing directory on the drive in question.
        count: of kills.
        seed: of what is done and when; the moments of kills from outside are never twice the same.
        progress: told of each.
        engine: of the processes, as `module:class`.
        steps: of work for each process.
    """
    result = Result("kills", seed)
    started = time.monotonic()
    forest = Forest(seed, large=0.03)
    ledger = Ledger(forest)
    here = namespace.ensure(path, Identity.of("torture", {"campaign": "kills", "seed": seed}))
    following = _start()
    try:
        for number in range(count):
            # The next one loads its modules while this one is judged.
            child, following = following, _start()
            draw = random.Random(f"{seed} kill {number}")
            job = {
                "path": str(here.path), "seed": seed, "round": number, "large": forest.large, "engine": engine,
                "versions": ledger.put, "steps": steps, "phase": "", "change": 0,
            }  # fmt: skip
            trigger = draw.choice(list(PHASES))
            changes, seconds = PHASES[trigger]
            delay: float | None = draw.random() * seconds if draw.random() < 0.5 else None
            if delay is None:
                job |= {"phase": trigger, "change": draw.randint(1, changes)}
            with reading(here, forest, max(ledger.put, default=0) + 10, result, f"round {number}"):
                _one(child, job, trigger, delay, ledger, result, f"round {number}")
            _judge(here, ledger, False, result, f"round {number}, reader")
            if draw.random() < 0.5:
                _judge(here, ledger, True, result, f"round {number}, writer")
            result.rounds += 1
            progress(result.rounds, count)
    finally:
        following.kill()
        following.communicate()
    result.seconds = time.monotonic() - started
    return result


def _start() -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "penny_cache.torture.child"],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip


def _one(
    child: subprocess.Popen[str], job: dict[str, Any], trigger: str, delay: float | None, ledger: Ledger,
    result: Result, where: str,
) -> None:  # fmt: skip
    assert child.stdin is not None
    assert child.stdout is not None
    assert child.stderr is not None
    child.stdin.write(json.dumps(job) + "\n")
    child.stdin.flush()
    timer, limit = threading.Timer(delay or 0.0, child.kill), threading.Timer(PATIENCE, child.kill)
    limit.start()
    phase = "starting"
    for line in child.stdout:
        event = json.loads(line)
        if event[0] in ("put", "kept", "gone", "stripped"):
            ledger.apply([event])
            result.notes[event[0]] += 1
        elif event[0] == "counted":
            _counted(event, result, where)
        elif event[0] == "closed":
            phase = "closed"
            _closed(event, result, where)
        else:
            phase = event[0]
        # A process gives space up while it works.
        if (
            delay is not None
            and trigger in (event[0], {"gone": "giving up"}.get(event[0]))
            and not timer.ident
        ):
            timer.start()
    said = child.stderr.read()
    ended = child.wait()
    timer.cancel()
    if not limit.is_alive():
        result.fault(where, "broken", f"the process was still {phase} after {PATIENCE:.0f} s")
    limit.cancel()
    child.stdin.close()
    child.stdout.close()
    child.stderr.close()
    if ended == -signal.SIGKILL:
        result.notes[f"killed while {phase}"] += 1
    elif ended == 0:
        result.notes["ended by itself"] += 1
    else:
        result.fault(where, "error", f"the process ended with {ended}: {said.strip().splitlines()[-1:]}")


def _counted(event: Any, result: Result, where: str) -> None:
    """Only what the store counts as given up is excused for being gone."""
    _, seen, given_up = event
    result.notes["counted"] += 1
    if seen > given_up:
        result.fault(where, "broken", f"{seen} bundles went out of the index, and {given_up} were given up")


def _closed(event: Any, result: Result, where: str) -> None:
    _, damaged, wrong, failed = event
    result.notes["puts refused"] += len(failed)
    if damaged:
        result.fault(where, "broken", f"{damaged} bundles were damaged")
    for sentence in wrong:
        result.fault(where, "wrong", sentence)


def _judge(here: Namespace, ledger: Ledger, writable: bool, result: Result, where: str) -> None:
    found: dict[int, int] = {}
    with (
        result.judging(where),
        open_store(here, writable=writable, settings=SETTINGS, engine=InlineEngine()) as store,
    ):
        outcomes, faults, found = ledger.judge(store)
        result.found(where, outcomes, faults)
    ledger.settle(found)
