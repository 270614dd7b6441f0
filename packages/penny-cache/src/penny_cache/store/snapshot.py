"""The whole index as one file, written when the writer closes: opening reads it instead of an index file per segment.

It holds for exactly the files that it lists, by inode, size and time of change; whoever becomes the writer removes it
before anything changes. A missing, damaged or outdated one costs reading the index files.

| Offset | Bytes | Field |
|---|---|---|
| 0 | 8 | magic `PENNYALL` |
| 8 | 2 | version, 1 |
| 16 | 32 | namespace |
| 48 | 8 | bytes of the head |
| 56 | 8 | rows |
| 64 | | head: JSON of layouts, files and the numbers to go on with |
| | | rows, by the first eight bytes of their keys |
| | | when each row was used last, 8 bytes |
| end - 16 | 16 | xxh3-128 of all before |
"""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from penny_cache.engine import Engine
from penny_cache.store import files
from penny_cache.store.image import Layout
from penny_cache.store.index import ROW, Index, Rows
from penny_cache.store.records import BLOCK, checksum

MAGIC = b"PENNYALL"
VERSION = 1
_HEAD = struct.Struct("<8sH6x32sQQ")


@dataclass(frozen=True)
class Snapshot:
    """What a snapshot holds.

    Attributes:
        layouts: by the numbers that the rows have.
        rows: of all bundles, sorted by the first eight bytes of their keys.
        used: when each was used last, as in `Index.used`.
        segments: blocks of each segment, by number.
        next_segment, sequence: the first numbers that no file and no bundle has.
        listing: the store's files that it holds for; see `files.listing`.
    """

    layouts: list[Layout]
    rows: Rows
    used: NDArray[np.uint64]
    segments: dict[int, int]
    next_segment: int
    sequence: int
    listing: files.Listing


def write(path: Path, namespace: bytes, snapshot: Snapshot, engine: Engine) -> None:
    """Write the snapshot of a store, durably. Raises OSError."""
    head = json.dumps(
        {
            "layouts": snapshot.layouts,
            "segments": list(snapshot.segments.items()),
            "next_segment": snapshot.next_segment,
            "sequence": snapshot.sequence,
            "listing": snapshot.listing,
        },
        separators=(",", ":"),
    ).encode()
    start = _HEAD.pack(MAGIC, VERSION, namespace, len(head), len(snapshot.rows))
    body = bytearray().join((start, head, snapshot.rows.tobytes(), snapshot.used.astype("<u8").tobytes()))
    files.replace(path / files.SNAPSHOT, bytes(body + checksum(body)), engine)


def read(path: Path, namespace: bytes, listing: files.Listing) -> Snapshot | None:
    """The snapshot of a store whose files are these; None if there is none that is whole and of just these files."""
    try:
        data = bytearray((path / files.SNAPSHOT).read_bytes())
    except OSError:
        return None
    if len(data) < _HEAD.size + 16 or checksum(memoryview(data)[:-16]) != data[-16:]:
        return None
    magic, version, owner, head_bytes, count = _HEAD.unpack_from(data)
    if (magic, version, owner) != (MAGIC, VERSION, namespace):
        return None
    start = _HEAD.size + head_bytes
    if len(data) != start + count * (ROW.itemsize + 8) + 16:
        return None
    head: dict[str, Any] = json.loads(data[_HEAD.size : start])
    found = {name: (inode, size, time) for name, (inode, size, time) in head["listing"].items()}
    if found != listing:
        return None
    return Snapshot(
        [tuple((str(n), int(b)) for n, b in layout) for layout in head["layouts"]],
        np.frombuffer(data, ROW, count, start),
        np.frombuffer(data, "<u8", count, start + count * ROW.itemsize),
        {int(number): int(blocks) for number, blocks in head["segments"]},
        head["next_segment"],
        head["sequence"],
        listing,
    )


def of(index: Index, next_segment: int, sequence: int, listing: files.Listing) -> Snapshot:
    """The snapshot of an index."""
    rows, used = index.sorted_rows()
    segments = {
        int(Path(name).stem): size // BLOCK
        for name, (_, size, _) in listing.items()
        if name.endswith(".segment")
    }
    return Snapshot(list(index.layouts), rows, used, segments, next_segment, sequence, listing)
