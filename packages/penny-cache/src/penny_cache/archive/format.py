"""The blocks of an archive. It holds, in blocks of 4,096 bytes, numbers little-endian:

| What | Bytes |
|---|---|
| head | magic `PENNYARC`, version (2), zero (2), manifest bytes (4), bundles (8), blocks of images (8), xxh3-128 |
| manifest | of the namespace, as in its directory; it ends in its own sha256 |
| images | the bundles as in a segment, parents first: part records, then a commit (`penny_cache.store.records`) |
| tail | magic `PENNYEND`, version (2), zero (6), bundles (8), blocks of images (8), xxh3-128 |

The head says how much is to come, the tail how much came, which is less if bundles were lost meanwhile. Nothing refers
to a position in the file, so it can be written to a pipe and read from one.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from penny_cache.store.errors import StoreError
from penny_cache.store.records import BLOCK, checksum

VERSION = 1
_HEAD_MAGIC, _TAIL_MAGIC = b"PENNYARC", b"PENNYEND"
_HEAD = struct.Struct("<8sHxxIQQ")
_TAIL = struct.Struct("<8sH6xQQ")


class ArchiveError(StoreError):
    """A file that is no archive, or one of another version."""


@dataclass(frozen=True)
class Head:
    """What an archive begins with: bytes of the manifest; bundles and blocks of their images that are to come."""

    manifest: int
    bundles: int
    blocks: int

    def packed(self) -> bytes:
        """Its block."""
        return _block(_HEAD.pack(_HEAD_MAGIC, VERSION, self.manifest, self.bundles, self.blocks))


@dataclass(frozen=True)
class Tail:
    """What an archive ends with: bundles that it holds, and blocks of their images."""

    bundles: int
    blocks: int

    def packed(self) -> bytes:
        """Its block."""
        return _block(_TAIL.pack(_TAIL_MAGIC, VERSION, self.bundles, self.blocks))


def head(block: bytes) -> Head | None:
    """The head in a block; None if it is damaged.

    Raises:
        ArchiveError: it is whole, and of another version.
    """
    if not _sound(block, _HEAD.size):
        return None
    magic, version, manifest, bundles, blocks = _HEAD.unpack_from(block)
    if magic != _HEAD_MAGIC:
        return None
    if version != VERSION:
        raise ArchiveError(
            f"The archive has format version {version}, this penny-cache reads version {VERSION}; use the one that "
            "made it."
        )
    return Head(manifest, bundles, blocks)


def is_head(block: bytes) -> bool:
    """Whether a block is a head, damaged or not: at most one byte of its magic is wrong."""
    return sum(a == b for a, b in zip(block, _HEAD_MAGIC, strict=False)) >= 7


def tail(block: bytes) -> Tail | None:
    """The tail in a block; None for any other block."""
    if block[:8] != _TAIL_MAGIC or not _sound(block, _TAIL.size):
        return None
    _, _, bundles, blocks = _TAIL.unpack_from(block)
    return Tail(bundles, blocks)


def _block(fields: bytes) -> bytes:
    return (fields + checksum(fields)).ljust(BLOCK, b"\0")


def _sound(block: bytes, size: int) -> bool:
    return len(block) >= size + 16 and checksum(block[:size]) == block[size : size + 16]
