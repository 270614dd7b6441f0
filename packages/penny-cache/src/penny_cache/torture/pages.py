"""Pages: what torture puts into a store. All about a page follows from its number and version.

So whatever bytes are read back can be judged. Pages form a forest: most hang on the page before, some branch off an
earlier one, some start a chain. The version is the length of the part `mark`, so that an index that lists only names
and lengths tells it.
"""

from __future__ import annotations

import functools
import hashlib
import random
from collections.abc import Mapping
from dataclasses import dataclass

from penny_cache.store import Digest

MARK, STATE = "mark", "state"
SNAPSHOTS = frozenset({STATE})
SIZES = (1, 511, 512, 4095, 4096, 4097, 13_312, 20_000)
LARGE = (200_704, 851_968)
"""Bytes: one of a public report of direct I/O gone wrong, and 64 tokens of 13,312."""


@dataclass(frozen=True)
class Forest:
    """The pages of one campaign.

    Attributes:
        seed: another seed is another forest, with other keys.
        large: share of pages with a part of real size.
    """

    seed: int
    large: float = 0.0

    def key(self, page: int) -> Digest:
        """The key of a page."""
        return _key(self.seed, page)

    def parent(self, page: int) -> int | None:
        """The page before it on its chain; None for the first."""
        return _parent(self.seed, page)

    def chain(self, page: int) -> list[int]:
        """The pages from the first of its chain to this one."""
        found: list[int] = []
        at: int | None = page
        while at is not None:
            found.append(at)
            at = self.parent(at)
        return found[::-1]

    def parts(self, page: int, version: int) -> Mapping[str, bytes]:
        """The parts of a version of a page; versions count from 1. Some pages have a snapshot."""
        return _parts(self, page, version)


@functools.lru_cache(maxsize=4096)
def _key(seed: int, page: int) -> Digest:
    return Digest(
        hashlib.blake2b(f"{seed} {page}".encode(), digest_size=32, person=b"penny torture").digest()
    )


@functools.lru_cache(maxsize=4096)
def _parent(seed: int, page: int) -> int | None:
    draw = random.Random(f"{seed} parent {page}")
    kind = draw.random()
    if not page or kind < 0.1:
        return None
    return draw.randrange(page) if kind < 0.25 else page - 1


@functools.lru_cache(maxsize=1024)
def _parts(forest: Forest, page: int, version: int) -> Mapping[str, bytes]:
    draw = random.Random(f"{forest.seed} parts {page} {version}")
    sizes = {"kv": draw.choice(SIZES), MARK: version}
    if draw.random() < forest.large:
        sizes["kv"] = draw.choice(LARGE)
    if draw.random() < 0.3:
        sizes["index"] = draw.choice(SIZES)
    if draw.random() < 0.4:
        sizes[STATE] = draw.choice(SIZES)
    return {name: draw.randbytes(size) for name, size in sizes.items()}
