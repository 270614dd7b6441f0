"""The campaign of power cuts: work is recorded, and the store is opened from what a power cut may have left, at every
moment of it sooner or later."""

from __future__ import annotations

import random
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from penny_cache import namespace
from penny_cache.engine import Engine, ThreadEngine
from penny_cache.engine.powercut import cut
from penny_cache.engine.recording import Recording, RecordingEngine
from penny_cache.namespace import Identity, Namespace
from penny_cache.store import Settings, Stage, open_store
from penny_cache.torture.drawn import become, contents, scratch
from penny_cache.torture.inline import InlineEngine
from penny_cache.torture.ledger import Ledger, reads_again
from penny_cache.torture.pages import SNAPSHOTS, Forest
from penny_cache.torture.result import Progress, Result, silent
from penny_cache.torture.watch import WatchEngine
from penny_cache.torture.workload import Workload

MIB = 1 << 20
SETTINGS = Settings(
    segment_bytes=40 * 4096, write_memory=MIB, read_memory=MIB, budget=MIB, snapshots=SNAPSHOTS
)
PER_RECORDING = 250
Wrap = Callable[[Engine, Recording], Engine]


def cuts(
    path: Path,
    count: int,
    seed: int,
    progress: Progress = silent,
    wrap: Wrap = RecordingEngine,
    steps: int = 45,
) -> Result:
    """Cut the power so many times.

    Each recording gives up to 250 cuts. Every other recording starts from a directory that a cut of the one before
    left, so that recovery from a cut is cut as well. After each the store must open, keep what it promised, and work.

    Args:
        path: a directory; the states that were judged badly are kept in it.
        count: of cuts.
        seed: of the work and the cuts. What threads do at the same time is not the same twice.
        progress: told of each.
        wrap: makes the engine that records; tests give one that lies.
        steps: of work in each recording.
    """
    result = Result("cuts", seed)
    started = time.monotonic()
    forest = Forest(seed)
    with scratch(path) as memory:
        here = namespace.ensure(memory, Identity.of("torture", {"campaign": "cuts", "seed": seed}))
        empty = contents(here.path)
        ledger, start = Ledger(forest), empty
        while result.rounds < count:
            name = f"recording {result.notes['recordings']}"
            recording, events = _record(here, start, ledger, f"{seed} {name}", wrap, steps, result)
            draw = np.random.default_rng([seed, result.notes["recordings"]])
            moments = draw.permutation(np.arange(1, recording.now + 1))[
                : min(PER_RECORDING, count - result.rounds)
            ]
            result.notes.update({"recordings": 1, "moments": recording.now, "moments cut": len(moments)})
            follow = (ledger, start)
            for moment in moments.tolist():
                left = cut(recording, moment, draw)
                then = ledger.copy()
                then.apply(event for at, event in events if at < moment)
                become(here.path, left)
                bad = result.bad
                found = _judge(here, then, result, f"{name}, moment {moment}")
                if result.bad > bad:
                    _keep(path / f"cut-{result.rounds}", left)
                elif found:
                    then.settle(found)
                    follow = (then, left)
                result.rounds += 1
                progress(result.rounds, count)
            first = result.notes["recordings"] % 2 == 0
            ledger, start = (Ledger(forest), empty) if first else follow
    result.seconds = time.monotonic() - started
    return result


def _record(
    here: Namespace,
    start: dict[str, bytes],
    ledger: Ledger,
    seed: str,
    wrap: Wrap,
    steps: int,
    result: Result,
) -> tuple[Recording, list[tuple[int, tuple[str, int, int]]]]:
    """Two openings of a store, with work and a close in each."""
    become(here.path, start)
    recording = Recording.of(here.path)
    versions = dict(ledger.put)
    draw = random.Random(seed)
    with result.judging(seed):
        for opening in range(2):
            engine = WatchEngine(wrap(ThreadEngine(draw.choice([1, 2, 4])), recording), recording.note)
            with open_store(here, settings=SETTINGS, engine=engine) as store:
                engine.watch(store, ledger.forest, max(versions, default=0) + steps + 1)
                work = Workload(ledger.forest, versions, recording.note, Stage.DURABLE, f"{seed} {opening}")
                work.run(store, steps // 2)
                if draw.random() < 0.5:
                    work.settle()
            work.settle()
            for sentence in work.wrong:
                result.fault(f"{seed}, opening {opening}", "wrong", sentence)
            engine.look()
            result.notes["given up"] += engine.given_up
            counted = store.counters.evicted + store.counters.gone
            if engine.given_up > counted:
                said = f"{engine.given_up} bundles went out of the index, {counted} were given up"
                result.fault(seed, "broken", said)
    return recording, recording.notes


def _judge(here: Namespace, ledger: Ledger, result: Result, where: str) -> dict[int, int]:
    """Of the store as the cut left it; the versions that were found."""
    found: dict[int, int] = {}
    with result.judging(where), open_store(here, settings=SETTINGS, engine=InlineEngine()) as store:
        outcomes, faults, found = ledger.judge(store)
        result.found(where, outcomes, faults)
        result.notes["promised"] += len(ledger.kept)
        result.notes["walked"] += len(store.recovered.walked)
        page = max(ledger.put, default=0) + 1
        if not reads_again(store, ledger.forest, page):
            result.fault(where, "error", "a bundle that was put afterwards is not found")
    return found


def _keep(where: Path, files: dict[str, bytes]) -> None:
    shutil.rmtree(where, ignore_errors=True)
    where.mkdir(parents=True)
    become(where, files)
