"""What a store gives its callers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penny_cache.store.image import Layout
from penny_cache.store.index import Rows


@dataclass(frozen=True)
class Loaded:
    """One bundle of a chain as it comes from the drive, verified.

    Attributes:
        position: of its key in the request.
        parts: payloads by name; they are gone when the next bundle is asked for.
    """

    position: int
    parts: Mapping[str, memoryview]


@dataclass(frozen=True)
class Survey:
    """What a store holds at one moment.

    Attributes:
        rows: one for each bundle that is there, a copy, in the order in which they were stored; see `index.ROW`.
        layouts: names and bytes of parts, by the number that rows have.
    """

    rows: Rows
    layouts: Sequence[Layout]
