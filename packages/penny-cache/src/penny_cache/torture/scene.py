"""A store in trouble: what each case of the campaign of faults does and asks."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from penny_cache import namespace
from penny_cache.engine import Engine, ThreadEngine
from penny_cache.namespace import Identity
from penny_cache.store import Settings, Stage, Store, StoreBusy, StoreError, open_store
from penny_cache.torture.ledger import Ledger
from penny_cache.torture.pages import SNAPSHOTS, Forest
from penny_cache.torture.result import Result
from penny_cache.torture.watch import WatchEngine

MIB = 1 << 20
SETTINGS = Settings(segment_bytes=40 * 4096, write_memory=MIB, read_memory=MIB, snapshots=SNAPSHOTS)
PAGES = 400
"""More than any case puts."""


class Scene:
    """One case, with a store of its own.

    Args:
        name: of the case.
        root: directory for its store, which must not be there.
        result: told of what goes wrong.
        identity: fields of the store's namespace.
    """

    def __init__(self, name: str, root: Path, result: Result, **identity: int) -> None:
        self.name, self.result = name, result
        self.ledger = Ledger(Forest(result.seed))
        self.here = namespace.ensure(root, Identity.of("torture", {"page": 64, **identity}))
        self.said: list[str] = []
        self.row: dict[str, Any] = {"fault": name, "stored": 0, "refused": 0, "said": ""}
        self._next = 0

    def open(self, engine: Engine | None = None, writable: bool = True) -> Store:
        """Open the store; what it gives up from then on is noted. Raises StoreError."""
        watched = WatchEngine(engine or ThreadEngine(2), lambda event: self.ledger.apply([event]))
        store = open_store(self.here, writable=writable, settings=SETTINGS, engine=watched)
        if writable:
            watched.watch(store, self.ledger.forest, PAGES)
        return store

    def put(self, store: Store, count: int, stage: Stage = Stage.DURABLE, wait: float = 30.0) -> list[str]:
        """Put new pages, and wait for each to be acknowledged; the errors of those that were refused."""
        forest, tickets, errors = self.ledger.forest, [], []
        for page in range(self._next, self._next + count):
            before = forest.parent(page)
            parent = None if before is None else forest.key(before)
            self.ledger.apply([("put", page, 1)])
            try:
                tickets.append(
                    (page, store.put(forest.key(page), forest.parts(page, 1), parent, stage, wait))
                )
            except StoreError as error:
                errors.append(f"busy: {error}" if isinstance(error, StoreBusy) else str(error))
        self._next += count
        for page, ticket in tickets:
            try:
                if not ticket.wait(timeout=60):
                    self.bad("broken", f"page {page} was neither stored nor refused in a minute")
                else:
                    self.ledger.apply([("kept", page, 1)])
            except StoreError as error:
                errors.append(str(error))
        self.row["stored"] += count - len(errors)
        self.row["refused"] += len(errors)
        self.row["said"] = self.row["said"] or next((e for e in errors if not e.startswith("busy")), "")
        return errors

    def judge(self, store: Store, when: str, missing: bool = False) -> None:
        """Read all; `missing` where a miss is what the fault allows."""
        outcomes, faults, _ = self.ledger.judge(store)
        if missing:
            outcomes["missed"] = outcomes.pop("lost", 0)
            faults = [fault for fault in faults if not fault.startswith("lost")]
        self.result.found(f"{self.name}, {when}", outcomes, faults)

    def reopened(self, when: str) -> None:
        """Open it on a drive that is well, read all, put one more and read it."""
        try:
            with self.open() as store:
                self.judge(store, when)
                if self.put(store, 1):
                    self.bad("error", f"{when}: it does not store any more")
        except StoreError as error:
            self.bad("error", f"{when}: {error}")

    def well_again(self, store: Store) -> None:
        """After the fault went: nothing waits, and new pages are stored."""
        if waiting := store.counters.queue_bytes:
            self.bad("broken", f"{waiting} bytes wait in the queue, and all was acknowledged")
        if errors := self.put(store, 4):
            self.bad("error", f"the fault is gone and it still says: {errors[0]}")

    def expect(self, so: bool, sentence: str) -> None:
        """Note a bad outcome unless something is so."""
        if not so:
            self.bad("broken", sentence)

    def bad(self, outcome: str, sentence: str) -> None:
        """Note a bad outcome."""
        self.result.fault(self.name, outcome, sentence)

    @contextmanager
    def hearing(self) -> Iterator[None]:
        """Collect what the store logs."""
        logger, ear = logging.getLogger("penny_cache.store"), _Ear(self.said)
        before = logger.propagate, logger.level
        logger.addHandler(ear)
        logger.propagate = False
        logger.setLevel(logging.WARNING)
        try:
            yield
        finally:
            logger.removeHandler(ear)
            logger.propagate = before[0]
            logger.setLevel(before[1])

    def heard(self, reasons: Iterable[str]) -> bool:
        """Whether a log line names the store's path and one of the reasons."""
        return any(str(self.here.path) in line and any(r in line for r in reasons) for line in self.said)


class _Ear(logging.Handler):
    def __init__(self, said: list[str]) -> None:
        super().__init__()
        self._said = said

    def emit(self, record: logging.LogRecord) -> None:
        self._said.append(record.getMessage())
