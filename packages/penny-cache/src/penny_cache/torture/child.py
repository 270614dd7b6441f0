"""The process that is killed: `python -m penny_cache.torture.child`. Its job comes as JSON on its standard input.

It tells each event as a JSON line on its standard output, at once, and may be killed from outside at any moment or kill
itself at a given change to the store's files.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import threading
from typing import Any

from penny_cache import namespace
from penny_cache.engine import Engine
from penny_cache.store import Stage, open_store
from penny_cache.torture.pages import Forest
from penny_cache.torture.watch import WatchEngine
from penny_cache.torture.workload import SETTINGS, Workload


def engine_named(name: str) -> Engine:
    """A new engine of a class that is named as `module:class`. Raises ValueError if there is none."""
    module, _, factory = name.partition(":")
    try:
        made: Engine = getattr(importlib.import_module(module), factory)()
    except (ImportError, AttributeError) as error:
        raise ValueError(
            f"There is no engine {name!r} ({error}); name one as module:class, penny_cache.engine:ThreadEngine say."
        ) from error
    return made


class _Death:
    """Kills this process at the change of a number in a phase; in the next one, if it has fewer."""

    def __init__(self, phase: str, change: int) -> None:
        self._phase, self._left = phase, change
        self._now = ""

    def enter(self, phase: str) -> None:
        before = {"working": ("opening",), "closing": ("opening", "working", "giving up")}
        if self._phase in before.get(phase, ()):
            self._phase = phase
        self._now = phase

    def step(self, name: str) -> None:
        if self._phase == self._now or (self._phase == "giving up" and name in ("unlink", "punch")):
            self._left -= 1
            if self._left == 0:
                os.kill(os.getpid(), signal.SIGKILL)


def main() -> None:
    """Do the job that comes on standard input."""
    job: dict[str, Any] = json.loads(sys.stdin.readline())
    death = _Death(job["phase"], job["change"])
    turn = threading.Lock()

    def tell(event: Any) -> None:
        with turn:
            os.write(1, json.dumps(event).encode() + b"\n")

    def phase(name: str) -> None:
        death.enter(name)
        tell([name])

    forest = Forest(job["seed"], job["large"])
    versions = {int(page): version for page, version in job["versions"].items()}
    engine = WatchEngine(engine_named(job["engine"]), tell, death.step)
    phase("opening")
    store = open_store(namespace.read(job["path"]), settings=SETTINGS, engine=engine)
    engine.watch(store, forest, max(versions, default=0) + 1 + job["steps"])
    phase("working")
    work = Workload(forest, versions, tell, Stage.WRITTEN, f"{job['seed']} {job['round']}")
    work.run(store, job["steps"])
    if job["round"] % 2:
        # Else it is closed while bundles are under way.
        work.settle()
        engine.look()
        tell(["counted", engine.given_up, store.counters.evicted])
    phase("closing")
    store.close()
    work.settle()
    engine.look()
    tell(["counted", engine.given_up, store.counters.evicted])
    tell(["closed", store.counters.damaged, work.wrong, work.failed[:1]])


if __name__ == "__main__":
    main()
