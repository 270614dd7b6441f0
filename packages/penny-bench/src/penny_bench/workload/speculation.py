"""Acceptance of many requests together."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import zip_longest

from penny_bench.client import Speculation


def summed(parts: Iterable[Speculation | None]) -> Speculation | None:
    """The sum, in which every verify step counts the same; None if no server told any."""
    known = [part for part in parts if part]
    if not known:
        return None
    steps = zip_longest(*(part.histogram for part in known), fillvalue=0)
    return Speculation(
        sum(part.verify for part in known),
        sum(part.accepted for part in known),
        sum(part.proposed for part in known),
        tuple(sum(step) for step in steps),
    )
