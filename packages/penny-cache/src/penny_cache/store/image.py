"""The image of a bundle: its records one after another, as they lie on disk."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from penny_cache.store.errors import BundleRefused
from penny_cache.store.memory import copy
from penny_cache.store.records import (
    BLOCK,
    MAX_NAME_BYTES,
    NO_KEY,
    Buffer,
    Header,
    Kind,
    blocks,
    checksum,
    unpack,
)

MAX_PARTS = 1024
Layout = tuple[tuple[str, int], ...]
"""Names and bytes of a bundle's parts, in the order on disk."""
REMOVED = ""
"""Name of a part that is no longer there; its place is kept, and may be a hole in the file."""
GIVEN_UP = "part {}: it was given up meanwhile"


@dataclass(frozen=True)
class Bundle:
    """What identifies a bundle: 32-byte digests, and its number.

    Attributes:
        namespace: of the store.
        key: of the bundle.
        parent: of the bundle before it on its chain; zeros for none.
        sequence: rising number that no other bundle of the store has.
    """

    namespace: bytes
    key: bytes
    parent: bytes = NO_KEY
    sequence: int = 0


def layout_of(parts: Mapping[str, Buffer]) -> Layout:
    """The layout of named parts.

    Raises:
        BundleRefused: there are none, too many, or one has a name that does not fit.
    """
    if not 1 <= len(parts) <= MAX_PARTS:
        raise BundleRefused(f"A bundle has {len(parts)} parts; it takes 1 to {MAX_PARTS}.")
    for name, data in parts.items():
        if not isinstance(name, str) or not _is_buffer(data):
            raise BundleRefused(
                f"The part {name!r} is of type {type(data).__name__}; a part is a name and something with a buffer, "
                "such as bytes, memoryview or a numpy array."
            )
        size = len(name.encode("utf-8", "surrogatepass"))
        if not 1 <= size <= MAX_NAME_BYTES or not name.isprintable():
            raise BundleRefused(
                f"A part is named {name[:80]!r}, {size} bytes; a name is printable text of 1 to {MAX_NAME_BYTES} bytes."
            )
    views = {name: memoryview(data) for name, data in parts.items()}
    if scattered := [name for name, view in views.items() if not view.c_contiguous]:
        raise BundleRefused(
            f"The parts {', '.join(scattered)} are not contiguous in memory; give copies that are."
        )
    return tuple((name, view.nbytes) for name, view in views.items())


def _is_buffer(data: object) -> bool:
    try:
        memoryview(data)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return False
    return True


def image_blocks(layout: Layout) -> int:
    """Blocks of a bundle's image: a header and the payload of each part, and the commit."""
    return sum(1 + blocks(length) for _, length in layout) + 1


def places(layout: Layout) -> Iterator[tuple[str, int, int, int]]:
    """Of each part that is there: name, offset of its header and of its payload in the image, and payload bytes."""
    at = 0
    for name, length in layout:
        if name != REMOVED:
            yield name, at, at + BLOCK, length
        at += BLOCK * (1 + blocks(length))


def fill(image: memoryview, parts: Mapping[str, Buffer]) -> None:
    """Copy the payloads of `parts` to where they go, padded with zeros, without headers and checksums (`seal`)."""
    for (_, _, start, length), data in zip(places(layout_of(parts)), parts.values(), strict=True):
        copy(image[start : start + length], _flat(data))
        end = start + blocks(length) * BLOCK
        image[start + length : end] = bytes(end - start - length)


def _flat(data: Buffer) -> memoryview:
    view = memoryview(data)
    return view.cast("B") if view.nbytes else memoryview(b"")


def seal(image: memoryview, bundle: Bundle, layout: Layout) -> None:
    """Write every header, with the checksums of the payloads that are there, and the commit at the end."""
    for name, header, start, length in places(layout):
        image[header : header + BLOCK] = Header(
            Kind.PART, bundle.namespace, bundle.sequence, bundle.key, bundle.parent, length,
            checksum(image[start : start + length]), name,
        ).packed()  # fmt: skip
    end = BLOCK * image_blocks(layout)
    image[end - BLOCK : end] = Header(
        Kind.COMMIT, bundle.namespace, bundle.sequence, bundle.key, bundle.parent, parts=len(layout)
    ).packed()


def check_image(view: memoryview, bundle: Bundle, layout: Layout) -> str:
    """Why an image that was read is not the bundle; empty when it is."""
    spots = list(places(layout))
    headers = [unpack(view[header : header + BLOCK]) for _, header, _, _ in spots]
    return damaged(headers, [view[start : start + length] for _, _, start, length in spots], bundle, layout)


def damaged(
    headers: Sequence[Header | None], payloads: Sequence[Buffer], bundle: Bundle, layout: Layout
) -> str:
    """Why a bundle that was read is not the one that was stored; empty when it is, byte for byte.

    Args:
        headers: of the parts that are there, as they were read, None for one that is none.
        payloads: what was read for each of them, without padding.
        bundle, layout: what the index says.
    """
    there = [part for part in layout if part[0] != REMOVED]
    for header, payload, (name, length) in zip(headers, payloads, there, strict=True):
        if header is None or header.kind not in (Kind.PART, Kind.GONE):
            return f"part {name}: its header is damaged"
        found = (header.namespace, header.key, header.parent, header.sequence, header.name, header.length)
        if found != (bundle.namespace, bundle.key, bundle.parent, bundle.sequence, name, length):
            return f"part {name}: its header is that of another record"
        if header.kind is Kind.GONE:
            return GIVEN_UP.format(name)
        if checksum(payload) != header.payload:
            return f"part {name}: its checksum does not fit"
    return ""
