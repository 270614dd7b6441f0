"""Bundles of one namespace in object storage that others use as well."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from time import monotonic

from penny_cache.store.complaints import Complaints
from penny_cache.store.errors import BundleRefused
from penny_cache.store.image import Bundle, fill, layout_of, places
from penny_cache.store.memory import Buffer, Pool
from penny_cache.store.records import BLOCK
from penny_cache.store.records import Buffer as Data
from penny_cache.tier.health import Health, TierCounters
from penny_cache.tier.image import FIRST, Lead, damage, finish, lead_in, lead_of
from penny_cache.tier.objects import Objects
from penny_cache.tier.patience import Patience

logger = logging.getLogger(__name__)

BATCH = 64
"""Names of one question."""
MIB = 1 << 20


class NoMemory(Exception):  # noqa: N818
    """Other bundles have all the memory now."""


class Fetched:
    """A bundle from the tier, verified. `close` gives its memory back, and its parts are gone then."""

    def __init__(self, buffer: Buffer, lead: Lead) -> None:
        self._buffer = buffer
        self.parent = lead.bundle.parent
        image = buffer.view[lead.start : lead.size]
        self.parts = {name: image[at : at + size] for name, _, at, size in places(lead.layout)}

    def close(self) -> None:
        """Give the memory back."""
        for view in self.parts.values():
            view.release()
        self._buffer.close()


class SharedTier:
    """Puts and gets bundles. No call raises because of the storage, and none waits long for it.

    A request that fails, or is not answered in time, makes the tier empty for `rest` seconds: what is asked for is a
    miss, what is put is dropped, nothing waits. Objects are named `<prefix>/<namespace>/<key>`, digests in hexadecimal.
    They are never changed; what is there already is not written again.

    Args:
        objects: the storage; the tier's own from then on.
        namespace: 32-byte digest.
        prefix: of all names.
        patience: s for a request, for each 16 MiB that it moves.
        rest: s.
        memory: bytes of bundles that wait to be written or are being read, at most.
        workers: bundles that are written, or fetched ahead, at a time.
    """

    def __init__(
        self,
        objects: Objects,
        namespace: bytes,
        *,
        prefix: str = "penny-cache",
        patience: float = 2.0,
        rest: float = 30.0,
        memory: int = 256 * MIB,
        workers: int = 4,
    ) -> None:
        self._objects, self._namespace = objects, namespace
        self._stem = f"{prefix}/{namespace.hex()}"
        self._patience = patience
        self._pool = Pool(memory)
        self._writers = ThreadPoolExecutor(workers, "penny-cache-tier")
        self._health = Health(self._stem, rest)
        self._requests = Patience(objects, self._health, patience)
        self._complaints = Complaints(f"The shared tier {self._stem}")

    @property
    def counters(self) -> TierCounters:
        """What was done so far."""
        return self._health.read()

    def match(self, keys: Sequence[bytes]) -> int:
        """How many bundles from the start of `keys` are there, as far as the storage says within `patience`."""
        found, until = 0, monotonic() + self._patience
        while found < len(keys) and monotonic() < until:
            batch = keys[found : found + BATCH]
            there = self._requests.exist([self._name(key) for key in batch])
            if there is None:
                break
            count = (*there, False).index(False)
            found += count
            if count < len(batch):
                break
        return found

    def get(self, key: bytes, wait: float | None = None) -> Fetched | None:
        """A bundle by its digest, verified; None for a miss.

        Args:
            key: digest.
            wait: s for memory.

        Raises:
            NoMemory: there is none, and there was a `wait`. Without one, that is a miss after `patience`.
        """
        try:
            found = self._get(key, self._patience if wait is None else wait)
        except NoMemory:
            if wait is not None:
                raise
            self._health.count(skipped=1)
            found = None
        self._health.count(**{"misses" if found is None else "hits": 1})
        return found

    def put(self, key: bytes, parts: Mapping[str, Data], parent: bytes) -> bool:
        """Take a copy of a bundle and write it in the background; whether it was taken."""
        try:
            lead = lead_of(Bundle(self._namespace, key, parent), layout_of(parts))
        except BundleRefused as error:
            logger.warning("A bundle is not shared: %s", error)
            return False
        try:
            buffer = self._take(lead.size, 0.0)
        except NoMemory:
            buffer = None
        if buffer is None:
            self._health.count(skipped=1)
            return False
        fill(buffer.view[lead.start : lead.size], parts)
        try:
            self._writers.submit(self._write, lead, buffer).add_done_callback(_report)
        except RuntimeError:  # it was closed
            buffer.close()
            return False
        return True

    def close(self) -> None:
        """Write what waits, as long as the storage answers."""
        self._writers.shutdown()
        self._objects.close(self._patience)

    def _get(self, key: bytes, wait: float) -> Fetched | None:
        buffer = self._take(FIRST, wait)
        if buffer is None:
            self._health.count(skipped=1)
            return None
        buffer.view[:] = bytes(FIRST)  # where a short object ends, there must not be an older one
        if not self._read(key, buffer, 0, FIRST):
            return None
        lead = lead_in(buffer.view, self._namespace, key)
        why = "it does not start as this bundle does"
        if lead is not None and lead.size <= self._pool.limit:
            if lead.size > FIRST:
                buffer = self._larger(buffer, lead, wait)
                if not self._read(key, buffer, FIRST, lead.size):
                    return None
            why = damage(buffer.view, lead)
            if not why:
                self._health.count(bytes_read=lead.size)
                return Fetched(buffer, lead)
        buffer.close()
        self._wrong(key, why)
        return None

    def _larger(self, first: Buffer, lead: Lead, wait: float) -> Buffer:
        """Memory for a whole object, with what was read of it."""
        try:
            larger = self._pool.take(lead.size, wait)
            if larger is None:
                raise NoMemory
            larger.view[:FIRST] = first.view
            larger.view[lead.size - BLOCK : lead.size] = bytes(BLOCK)
        finally:
            first.close()
        return larger

    def _read(self, key: bytes, buffer: Buffer, start: int, end: int) -> bool:
        """Fill bytes of a buffer; whether it is still the caller's, with them."""
        why = self._requests.get(self._name(key), buffer, start, end)
        # An object that is missing cannot be read either; the question tells it from one that is not whole.
        if why and not self._health.resting and self._requests.exist([self._name(key)]) == [True]:
            self._wrong(key, f"it cannot be read ({why})")
        return not why

    def _wrong(self, key: bytes, why: str) -> None:
        self._health.count(damaged=1)
        self._complaints.about(f"the object {key.hex()} is not its bundle: {why}")

    def _write(self, lead: Lead, buffer: Buffer) -> None:
        name = self._name(lead.bundle.key)
        there = self._requests.exist([name])
        if there != [False]:
            buffer.close()
            self._health.count(**{"skipped" if there is None else "known": 1})
            return
        finish(buffer.view, lead)
        if why := self._requests.put(name, buffer, lead.size):
            self._health.count(refused=1)
            self._complaints.about(f"the object {lead.bundle.key.hex()} was not written: {why}")
            return
        buffer.close()
        self._health.count(put=1, bytes_written=lead.size)

    def _take(self, size: int, wait: float) -> Buffer | None:
        """Memory for a request; None if there is to be none now."""
        if self._health.resting or size > self._pool.limit:
            return None
        buffer = self._pool.take(size, wait)
        if buffer is None:
            raise NoMemory
        return buffer

    def _name(self, key: bytes) -> str:
        return f"{self._stem}/{key.hex()}"


def _report(done: Future[None]) -> None:
    if error := done.exception():
        logger.error("A bundle was not written to the shared tier", exc_info=error)
