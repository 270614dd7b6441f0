"""A local store in front of the shared tier."""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType

from penny_cache.store import Digest, Loaded, Stage, Store, StoreError, Ticket
from penny_cache.store.complaints import Complaints
from penny_cache.store.keys import digest
from penny_cache.store.records import NO_KEY
from penny_cache.store.records import Buffer as Data
from penny_cache.tier.shared import Fetched, NoMemory, SharedTier

logger = logging.getLogger(__name__)

AHEAD = 4
"""Bundles that are fetched at a time."""
Key = str | bytes


class TieredStore:
    """Finds bundles in a local store, then in the tier; what comes from the tier is kept locally as well.

    A context manager. Its calls fail where those of the local store do and never because of the tier: one that is down,
    slow or wrong is a shorter chain.

    Args:
        local, tier: of one namespace, and the tiered store's own from then on. `local` may be open for reading; nothing
            from the tier is kept then.
    """

    def __init__(self, local: Store, tier: SharedTier) -> None:
        self.local, self.tier = local, tier
        self._fetchers = ThreadPoolExecutor(AHEAD, "penny-cache-fetch")
        self._complaints = Complaints(f"Bundles from the shared tier are not kept in {local.path}")

    def __enter__(self) -> TieredStore:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Write what waits, to the tier as long as it answers, and close both."""
        self._fetchers.shutdown()
        self.tier.close()
        self.local.close()

    def put(
        self,
        key: Key,
        parts: Mapping[str, Data],
        parent: Key | None = None,
        wanted: Stage = Stage.WRITTEN,
        wait: float = 0.0,
    ) -> Ticket:
        """As `Store.put`; the tier gets the bundle in the background, if it has memory for it."""
        ticket = self.local.put(key, parts, parent, wanted, wait)
        self.tier.put(digest(key), parts, NO_KEY if parent is None else digest(parent))
        return ticket

    def match(self, chain: Sequence[Key]) -> int:
        """How many bundles from the start of a chain are here or in the tier.

        What the tier has is not looked at before it is loaded, so a load may turn out to be shorter.
        """
        found = self.local.match(chain)
        while found < len(chain):
            shared = self.tier.match([digest(key) for key in chain[found:]])
            found += shared
            here = self.local.match(chain[found:]) if shared and found < len(chain) else 0
            found += here
            if not here:
                break
        return found

    def load(self, chain: Sequence[Key]) -> Iterator[Loaded]:
        """As `Store.load`, with the bundles that are not here from the tier."""
        at = base = 0
        while True:
            for one in self.local.load(chain[base:]):
                if base + one.position == at:
                    yield Loaded(at, one.parts)
                    at += 1
            start, kept = at, None
            for found in self._shared(chain, at):
                kept = self._keep(chain, at, found)
                yield Loaded(at, found.parts)
                at += 1
            if at == start or at == len(chain) or kept is None or not _written(kept):
                return
            # From the last one on, so that the local store sees whether the next one hangs on it.
            base = at - 1

    def fetch(self, chain: Sequence[Key]) -> int:
        """Bring what is in the tier alone to the local store, for `local.parts` and `local.restore`.

        Returns:
            How many bundles from the start of the chain are there then.
        """
        at = self.local.match(chain)
        while at < len(chain):
            start = at
            tickets = []
            for found in self._shared(chain, at):
                tickets.append(self._keep(chain, at, found, wait=60.0))
                at += 1
            if at == start or not all(ticket is not None and _written(ticket) for ticket in tickets):
                break
            at = self.local.match(chain)
        return self.local.match(chain)

    def _shared(self, chain: Sequence[Key], at: int) -> Iterator[Fetched]:
        """What the tier has of a chain from `at` on, up to what is here; each is gone when the next is asked for."""
        before = digest(chain[at - 1]) if at else None
        ahead: deque[tuple[bytes, Future[Fetched | None]]] = deque()
        asked, more, width = at, True, AHEAD
        try:
            while True:
                while more and asked < len(chain) and len(ahead) < width:
                    key = digest(chain[asked])
                    more = asked == at or not self.local.match([chain[asked]])
                    if more:
                        # None waits for memory here: those behind might have it that the first waits for.
                        ahead.append((key, self._fetchers.submit(self.tier.get, key, 0.0)))
                        asked += 1
                if not ahead:
                    return
                key, coming = ahead.popleft()
                try:
                    found = coming.result()
                except NoMemory:
                    # Those behind it have the memory. They are asked for again, one at a time from here on.
                    _give_back(ahead)
                    asked, width = asked - len(ahead), 1
                    ahead.clear()
                    found = self.tier.get(key)
                if found is None:
                    return
                try:
                    if before is not None and found.parent != before:
                        return
                    yield found
                finally:
                    found.close()
                before = key
        finally:
            _give_back(ahead)

    def _keep(self, chain: Sequence[Key], at: int, found: Fetched, wait: float = 0.0) -> Ticket | None:
        if not self.local.writable:
            return None
        parent = chain[at - 1] if at else (Digest(found.parent) if found.parent != NO_KEY else None)
        try:
            return self.local.put(chain[at], found.parts, parent, wait=wait)
        except StoreError as error:
            self._complaints.about(str(error))
            return None


def _written(ticket: Ticket) -> bool:
    try:
        return ticket.wait(Stage.WRITTEN, timeout=60.0)
    except StoreError as error:
        logger.warning("A bundle from the shared tier was not kept: %s", error)
        return False


def _give_back(ahead: Iterable[tuple[bytes, Future[Fetched | None]]]) -> None:
    """Give the memory of bundles back that are not wanted any more, as soon as they are there."""

    def close(coming: Future[Fetched | None]) -> None:
        if not coming.exception() and (found := coming.result()) is not None:
            found.close()

    for _, coming in ahead:
        coming.add_done_callback(close)
