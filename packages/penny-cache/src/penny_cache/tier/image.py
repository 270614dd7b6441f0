"""The bytes of an object: one bundle, whole.

| Blocks | What |
|---|---|
| 1 | header of a record of the kind START with namespace, key and parent of the bundle, see `store.records` |
| 1 or more | its payload: the bundle's layout as JSON, `[[name, bytes], …]` |
| the rest | the image of the bundle, see `store.image`, with the sequence number 0 |

Namespace, key and parts determine all of it, so machines that put the same bundle put the same bytes.
"""

from __future__ import annotations

import json
from dataclasses import dataclass

from penny_cache.store.errors import BundleRefused
from penny_cache.store.image import MAX_PARTS, Bundle, Layout, check_image, image_blocks, seal
from penny_cache.store.records import BLOCK, Header, Kind, blocks, checksum, unpack

FIRST = 64 * 1024
"""Bytes that are read of an object before its length is known; header and layout fit."""


@dataclass(frozen=True)
class Lead:
    """What the first blocks of an object say.

    Attributes:
        bundle, layout: of the bundle.
        start: bytes before its image.
    """

    bundle: Bundle
    layout: Layout
    start: int

    @property
    def size(self) -> int:
        """Bytes of the object."""
        return self.start + BLOCK * image_blocks(self.layout)


def lead_of(bundle: Bundle, layout: Layout) -> Lead:
    """The lead of an object for a bundle.

    Raises:
        BundleRefused: its layout is too long for an object.
    """
    start = BLOCK * (1 + blocks(len(_text(layout))))
    if start > FIRST:
        raise BundleRefused(
            f"The names of {len(layout)} parts take {start:,} bytes; a shared bundle has {FIRST:,}."
        )
    return Lead(bundle, layout, start)


def finish(view: memoryview, lead: Lead) -> None:
    """Write all of an object but the payloads, which are in their places (`store.image.fill`)."""
    text = _text(lead.layout)
    bundle = lead.bundle
    view[:BLOCK] = Header(
        Kind.START, bundle.namespace, 0, bundle.key, bundle.parent, len(text), checksum(text)
    ).packed()
    view[BLOCK : lead.start] = text.ljust(lead.start - BLOCK, b"\0")
    seal(view[lead.start : lead.size], bundle, lead.layout)


def lead_in(first: memoryview, namespace: bytes, key: bytes) -> Lead | None:
    """The lead in the first bytes of an object; None if they are no lead of this bundle."""
    header = unpack(first[:BLOCK])
    if header is None or header.kind is not Kind.START or (header.namespace, header.key) != (namespace, key):
        return None
    text = bytes(first[BLOCK : BLOCK + header.length])
    if BLOCK + header.length > FIRST or checksum(text) != header.payload:
        return None
    layout = tuple((str(name), int(size)) for name, size in json.loads(text))
    if not 1 <= len(layout) <= MAX_PARTS or any(not name or size < 0 for name, size in layout):
        return None
    return Lead(Bundle(namespace, key, header.parent), layout, BLOCK * (1 + blocks(header.length)))


def damage(view: memoryview, lead: Lead) -> str:
    """Why an object that was read is not whole; empty when it is, byte for byte."""
    image = view[lead.start : lead.size]
    commit = unpack(image[-BLOCK:])
    wanted = Header(
        Kind.COMMIT, lead.bundle.namespace, 0, lead.bundle.key, lead.bundle.parent, parts=len(lead.layout)
    )
    if commit != wanted:
        return "it has no commit at its end"
    return check_image(image, lead.bundle, lead.layout)


def _text(layout: Layout) -> bytes:
    return json.dumps(layout, separators=(",", ":"), ensure_ascii=False).encode("utf-8", "surrogatepass")
