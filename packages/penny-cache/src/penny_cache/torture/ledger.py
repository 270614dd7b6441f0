"""The contract, and who keeps to it: what was put, acknowledged and given up, against what a store says afterwards.

What a store promises, and what is judged here
- What is found under a key is one version that was put under it, whole and byte for byte, with its parent; only
  snapshots may be missing, and only those that were given up for space, or of a bundle that was not promised when the
  process died or the power went. Anything else is `wrong`.
- Nothing is found under a key that nothing was put under: `phantom`.
- A version that was acknowledged is found, or a newer one that was put; else it is `lost`, or `stale` if an older one
  is found. `WRITTEN` is such an acknowledgement when a process dies, `DURABLE` when the power goes as well.
- The promise ends when the bundle is given up for space. It may still be found afterwards, as it was or as an older
  version that was never given up (`older`, which is counted and allowed).
- A newer version that was put and not acknowledged takes nothing of the promise of the older one, whether a process
  dies or the power goes.
- What was not acknowledged, or failed, may be found or not.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

from penny_cache.store import Digest, Store
from penny_cache.torture.pages import MARK, SNAPSHOTS, Forest

Event = Sequence[str | int]
"""`put`, `kept` (acknowledged), `gone` (given up) or `stripped` (its snapshots were), then page and version."""
BAD = frozenset({"wrong", "phantom", "lost", "stale", "error", "escaped", "broken"})
"""Outcomes that the contract does not allow. `error` is a store that does not open or work, `escaped` an exception of
another type than its errors, `broken` a promise about something else than a bundle."""


@dataclass
class Ledger:
    """What is known of each page.

    Attributes:
        forest: of the pages.
        put: the newest version that was put.
        kept: the newest version that is promised.
        gone: the newest version that was given up, since it was last seen.
        stripped: versions whose snapshots may be missing.
    """

    forest: Forest
    put: dict[int, int] = field(default_factory=dict)
    kept: dict[int, int] = field(default_factory=dict)
    gone: dict[int, int] = field(default_factory=dict)
    stripped: set[tuple[int, int]] = field(default_factory=set)

    def copy(self) -> Ledger:
        """One that goes on from here by itself."""
        return replace(
            self, put=dict(self.put), kept=dict(self.kept), gone=dict(self.gone), stripped=set(self.stripped)
        )

    def apply(self, events: Iterable[Event]) -> None:
        """Take notice of events, in their order."""
        for kind, page, version in events:
            page, version = int(page), int(version)
            if kind == "stripped":
                self.stripped.add((page, version))
            else:
                book: dict[int, int] = getattr(self, str(kind))
                book[page] = max(version, book.get(page, 0))

    def judge(self, store: Store) -> tuple[Counter[str], list[str], dict[int, int]]:
        """Read all that a store has.

        Returns:
            How often each outcome was found, a sentence for each that is bad, and the version of each page that is
            there.
        """
        outcomes: Counter[str] = Counter()
        faults: list[str] = []
        found: dict[int, int] = {}
        pages = {bytes(self.forest.key(page)): page for page in self.put}
        there: dict[int, bytes] = {}
        for row in store.survey().rows:
            page = pages.get(row["key"].tobytes())
            if page is None:
                outcomes["phantom"] += 1
                faults.append(f"phantom: a bundle {row['key'].tobytes().hex()} that was never put")
            else:
                there[page] = row["parent"].tobytes()
        self._read(store, there, found, outcomes, faults)
        for page in sorted(self.put)[-3:]:
            chain = self.forest.chain(page)
            first = next((i for i, one in enumerate(chain) if one not in found), len(chain))
            if store.match([self.forest.key(one) for one in chain]) != first:
                outcomes["wrong"] += 1
                faults.append(f"wrong: the chain of page {page} does not match its first {first} pages")
        for page in self.put:
            outcome = self._outcome(page, found.get(page, 0))
            outcomes[outcome] += 1
            if outcome in BAD:
                faults.append(
                    f"{outcome}: page {page}: found version {found.get(page, 0)}, promised {self.kept.get(page, 0)}, "
                    f"put {self.put[page]}, given up {self.gone.get(page, 0)}"
                )
        return outcomes, faults, found

    def settle(self, found: dict[int, int]) -> None:
        """Promise what was found from now on, and nothing else."""
        self.kept = dict(found)
        self.gone = {}

    def _read(
        self,
        store: Store,
        there: dict[int, bytes],
        found: dict[int, int],
        outcomes: Counter[str],
        faults: list[str],
    ) -> None:
        """Load every page, whole paths at a time; what does not load ends one, and the next goes on behind it."""
        unread = sorted(there, reverse=True)
        while unread:
            path = [unread.pop()]
            while unread and self.forest.parent(unread[-1]) == path[-1]:
                path.append(unread.pop())
            came = 0
            for one in store.load([self.forest.key(page) for page in path]):
                came += 1
                page = path[one.position]
                parts = {name: bytes(view) for name, view in one.parts.items()}
                found[page] = len(parts.get(MARK, b""))
                said = self._compare(page, found[page], parts, there[page])
                if said:
                    outcomes["wrong"] += 1
                    faults.append(f"wrong: page {page} version {found[page]}: {said}")
            unread += reversed(path[came + 1 :])

    def _compare(self, page: int, version: int, parts: dict[str, bytes], parent: bytes) -> str:
        if not 1 <= version <= self.put[page]:
            return "no version that was put"
        before = self.forest.parent(page)
        if parent != (bytes(32) if before is None else bytes(self.forest.key(before))):
            return "its parent is another"
        wanted = dict(self.forest.parts(page, version))
        if version > self.kept.get(page, 0) and SNAPSHOTS & wanted.keys() - parts.keys():
            self.stripped.add((page, version))
        # What is given up whole may lose its snapshots first.
        if (page, version) in self.stripped or version <= self.gone.get(page, 0):
            wanted = {name: data for name, data in wanted.items() if name not in SNAPSHOTS or name in parts}
        if list(parts) != list(wanted):
            return f"its parts are {', '.join(parts)} and not {', '.join(wanted)}"
        other = [name for name in parts if parts[name] != wanted[name]]
        return f"the bytes of {', '.join(other)} are others" if other else ""

    def _outcome(self, page: int, found: int) -> str:
        promised, given_up = self.kept.get(page, 0), self.gone.get(page, 0)
        if found >= promised:
            return "right" if found else "free"
        if given_up >= promised:
            return "older" if found else "given up"
        return "stale" if found else "lost"


def reads_again(store: Store, forest: Forest, page: int) -> bool:
    """Whether a page that is put now is found: whether the store works."""
    before = forest.parent(page)
    parent: Digest | None = None if before is None else forest.key(before)
    parts = forest.parts(page, 1)
    if not store.put(forest.key(page), parts, parent, wait=30).wait(timeout=30):
        return False
    return [dict(parts)] == [
        {name: bytes(view) for name, view in one.parts.items()} for one in store.load([forest.key(page)])
    ]
