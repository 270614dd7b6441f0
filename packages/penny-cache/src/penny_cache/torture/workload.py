"""What a store is made to do, at random: chains with branches, replaced keys, loads, pins, space given up."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import ExitStack

from penny_cache.store import Settings, Stage, Store, StoreError, Ticket
from penny_cache.torture.ledger import Event
from penny_cache.torture.pages import MARK, SNAPSHOTS, Forest

MIB = 1 << 20
SETTINGS = Settings(
    segment_bytes=MIB, write_memory=4 * MIB, read_memory=4 * MIB, budget=8 * MIB, snapshots=SNAPSHOTS
)


class Workload:
    """Puts pages of a forest into a store and tells what becomes of them.

    Args:
        forest: of the pages.
        versions: the newest version put so far, by page; kept up to date.
        tell: told of each event in time: `put` before the store is, `kept` after it acknowledged.
        promise: the stage whose acknowledgement is told.
        seed: of what is done.
    """

    def __init__(
        self,
        forest: Forest,
        versions: dict[int, int],
        tell: Callable[[Event], None],
        promise: Stage,
        seed: int | str,
    ) -> None:
        self._forest, self._versions, self._tell, self._promise = forest, versions, tell, promise
        self._random = random.Random(seed)
        self._waiting: list[tuple[Ticket, int, int]] = []
        self.failed: list[str] = []
        self.wrong: list[str] = []

    def run(self, store: Store, steps: int) -> None:
        """Do so many things, in this thread."""
        with ExitStack() as pins:
            for _ in range(steps):
                kind = self._random.random()
                if kind < 0.75:
                    self._put(store)
                elif kind < 0.85:
                    self._load(store)
                elif kind < 0.89:
                    pins.enter_context(store.pinned(self._some_chain()))
                elif kind < 0.93:
                    pins.pop_all().close()
                elif kind < 0.96:
                    store.collect(self._random.randrange(1, 200_000))
                else:
                    self.settle()
                self._acknowledged()

    def settle(self) -> None:
        """Wait for what is under way, and tell of it."""
        for ticket, page, version in self._waiting:
            self._wait(ticket, page, version)
        self._waiting.clear()

    def _put(self, store: Store) -> None:
        again = self._versions and self._random.random() < 0.2
        page = self._random.choice(sorted(self._versions)) if again else max(self._versions, default=-1) + 1
        version = self._versions.get(page, 0) + 1
        before = self._forest.parent(page)
        stage = self._random.choice(list(Stage))
        self._versions[page] = version
        self._tell(("put", page, version))
        parts = self._forest.parts(page, version)
        parent = None if before is None else self._forest.key(before)
        ticket = store.put(self._forest.key(page), parts, parent, stage, wait=60)
        if self._random.random() < 0.2:
            self._wait(ticket, page, version)
        else:
            self._waiting.append((ticket, page, version))

    def _wait(self, ticket: Ticket, page: int, version: int) -> None:
        try:
            reached = ticket.wait(timeout=60)
        except StoreError as error:
            self.failed.append(str(error))
            return
        if not reached:
            self.wrong.append(f"page {page} version {version} was not acknowledged in a minute")
        if ticket.stage >= self._promise:
            self._tell(("kept", page, version))

    def _acknowledged(self) -> None:
        left: list[tuple[Ticket, int, int]] = []
        for ticket, page, version in self._waiting:
            if ticket.error is not None or ticket.stage >= self._promise:
                self._wait(ticket, page, version)
            elif ticket.stage < max(ticket.wanted, Stage.WRITTEN):
                left.append((ticket, page, version))
        self._waiting = left

    def _some_chain(self) -> list[bytes]:
        if not self._versions:
            return []
        return [
            self._forest.key(page) for page in self._forest.chain(self._random.choice(sorted(self._versions)))
        ]

    def _load(self, store: Store) -> None:
        if not self._versions:
            return
        chain = self._forest.chain(self._random.choice(sorted(self._versions)))
        for one in store.load([self._forest.key(page) for page in chain]):
            if said := other_bytes(self._forest, chain[one.position], one.parts):
                self.wrong.append(said)


def other_bytes(forest: Forest, page: int, parts: Mapping[str, memoryview]) -> str:
    """What is wrong with parts that were loaded, if they are to be of any version of a page; empty if nothing is."""
    version = len(parts.get(MARK, b""))
    wanted = forest.parts(page, version)
    wrong = [name for name, view in parts.items() if bytes(view) != wanted.get(name)]
    return f"page {page} version {version}: the bytes of {', '.join(wrong)} are others" if wrong else ""
