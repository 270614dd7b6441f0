"""Records: what a segment file is made of.

A segment is a sequence of records, each a header of one block and a payload padded to whole blocks, so that every
payload starts where O_DIRECT may read it. All numbers are little-endian.

| Offset | Bytes | Field |
|---|---|---|
| 0 | 8 | magic `PENNYREC` |
| 8 | 2 | version, 1 |
| 10 | 1 | kind: 1 start of a segment, 2 part, 3 commit, 4 a part that was given up, whose payload may be a hole |
| 11 | 1 | length of the part's name |
| 12 | 4 | parts of the bundle (commit), else 0 |
| 16 | 8 | payload bytes |
| 24 | 8 | sequence number of the record's bundle, or of the segment |
| 32 | 32 | namespace |
| 64 | 32 | key |
| 96 | 32 | key of the parent; zeros for none |
| 128 | 16 | xxh3-128 of the payload |
| 144 | 64 | name of the part, UTF-8 |
| 208 | 16 | xxh3-128 of the 208 bytes before |

Magic, version and the last checksum are at these places in every version, so that a damaged version number is not taken
for a newer one. The rest of the block is zero.

A bundle is its part records, then one commit record without a payload; the commit makes it visible. Checksums are
xxh3-128 of the xxHash library, big-endian as `digest()` gives them.
"""

from __future__ import annotations

import enum
import struct
from dataclasses import dataclass

import xxhash

Buffer = bytes | bytearray | memoryview

BLOCK = 4096
"""Bytes of a block, the unit of every offset and of O_DIRECT."""
MAGIC = b"PENNYREC"
VERSION = 1
MAX_NAME_BYTES = 64
NO_KEY = bytes(32)
_FIELDS = struct.Struct("<8sHBBIQQ32s32s32s16s64s")
_CHECKED = _FIELDS.size
HEADER_BYTES = _CHECKED + 16


class Kind(enum.IntEnum):
    """What a record is."""

    START = 1
    PART = 2
    COMMIT = 3
    GONE = 4


_KINDS = frozenset(int(kind) for kind in Kind)


def blocks(size: int) -> int:
    """Whole blocks that hold `size` bytes."""
    return -(-size // BLOCK)


def checksum(data: Buffer) -> bytes:
    """The 16 bytes of xxh3-128."""
    return xxhash.xxh3_128_digest(data)


@dataclass(frozen=True, slots=True)
class Header:
    """The header of one record; see the module's table.

    Attributes:
        kind: what the record is.
        namespace: 32 bytes, the digest of the identity that the record belongs to.
        sequence: of the bundle (every record of one bundle has the same), or of the segment.
        key, parent: 32 bytes each.
        length: payload bytes, without padding.
        payload: checksum of the payload.
        name: of the part.
        parts: number of parts, in a commit.
    """

    kind: Kind
    namespace: bytes
    sequence: int
    key: bytes = NO_KEY
    parent: bytes = NO_KEY
    length: int = 0
    payload: bytes = bytes(16)
    name: str = ""
    parts: int = 0

    @property
    def size(self) -> int:
        """Blocks of the whole record."""
        return 1 + blocks(self.length)

    def packed(self) -> bytes:
        """The header's block."""
        name = self.name.encode()
        if len(name) > MAX_NAME_BYTES:
            raise ValueError(
                f"The part name {self.name!r} has {len(name)} bytes; at most {MAX_NAME_BYTES} fit."
            )
        fields = _FIELDS.pack(
            MAGIC, VERSION, self.kind, len(name), self.parts, self.length, self.sequence,
            self.namespace, self.key, self.parent, self.payload, name,
        )  # fmt: skip
        return (fields + checksum(fields)).ljust(BLOCK, b"\0")


def unpack(block: Buffer) -> Header | None:
    """The header in a block; None for anything that is not a whole header of this version."""
    data = memoryview(block)[:HEADER_BYTES]
    if len(data) < HEADER_BYTES or checksum(data[:_CHECKED]) != data[_CHECKED:]:
        return None
    magic, version, kind, named, parts, length, sequence, namespace, key, parent, payload, name = (
        _FIELDS.unpack(data[:_CHECKED])
    )
    if magic != MAGIC or version != VERSION or kind not in _KINDS or named > MAX_NAME_BYTES:
        return None
    try:
        text = name[:named].decode()
    except UnicodeDecodeError:
        return None
    return Header(Kind(kind), namespace, sequence, key, parent, length, payload, text, parts)


def foreign_version(block: Buffer) -> int | None:
    """The format version of a block that starts a record of another version; None for any other block."""
    data = bytes(memoryview(block)[:HEADER_BYTES])
    if len(data) < HEADER_BYTES or data[:8] != MAGIC or checksum(data[:_CHECKED]) != data[_CHECKED:]:
        return None
    version = int.from_bytes(data[8:10], "little")
    return version if version != VERSION else None
