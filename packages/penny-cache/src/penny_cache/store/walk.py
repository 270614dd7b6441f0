"""Walking a segment: finding its bundles without an index, whatever is broken in it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from penny_cache.store.image import REMOVED, Bundle, Layout
from penny_cache.store.records import Header, Kind, unpack

ReadBlock = Callable[[int], bytes]
"""Reads one block by number; fewer bytes at the end of the file."""
Skip = Callable[[int], int]
"""The first block from one on that may hold anything; those before it were never written."""


@dataclass(frozen=True)
class Found:
    """A bundle with all of its headers and its commit; its payloads were not looked at.

    Attributes:
        bundle, layout: what the headers say.
        offset: first block in the segment.
        blocks: of the whole image.
    """

    bundle: Bundle
    layout: Layout
    offset: int
    blocks: int


def walk(
    read: ReadBlock, namespace: bytes, end: int, start: int = 1, skip: Skip = lambda block: block
) -> Iterator[Found]:
    """The whole bundles of `namespace` between the blocks `start` and `end`.

    A block that is no header where one should be is passed over, and so are bundles whose records do not follow each
    other: the walk goes on at the next block, or where `skip` says.
    """
    at = start
    while at < end:
        found = _bundle_at(read, namespace, at, end)
        if found is None:
            at = max(at + 1, skip(at + 1))
        else:
            yield found
            at += found.blocks


def _bundle_at(read: ReadBlock, namespace: bytes, start: int, end: int) -> Found | None:
    first: Header | None = None
    layout: list[tuple[str, int]] = []
    at = start
    while at < end:
        header = unpack(read(at))
        if header is None or header.namespace != namespace or header.kind is Kind.START:
            return None
        if first is None:
            first = header
        if (header.key, header.parent, header.sequence) != (first.key, first.parent, first.sequence):
            return None
        at += header.size
        if header.kind is Kind.COMMIT:
            if header.parts != len(layout) or not layout or at > end:
                return None
            bundle = Bundle(namespace, first.key, first.parent, first.sequence)
            return Found(bundle, tuple(layout), start, at - start)
        layout.append((REMOVED if header.kind is Kind.GONE else header.name, header.length))
    return None
