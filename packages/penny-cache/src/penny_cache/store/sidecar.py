"""The index file beside a sealed segment: its rows, so that opening a store reads no segment.

It is written whole under another name, synced and renamed. A missing or damaged one costs a walk of the segment.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penny_cache.store.image import Layout
from penny_cache.store.index import ROW, Rows
from penny_cache.store.records import checksum

MAGIC = b"PENNYIDX"
VERSION = 1
_HEAD = struct.Struct("<8sHxxI32sQQQ")
"""Magic, version, segment, namespace, blocks of the segment, bytes of the layouts, rows."""


@dataclass(frozen=True)
class Sidecar:
    """What an index file holds.

    Attributes:
        segment: number of the segment.
        blocks: of the segment, as it was sealed.
        layouts: those of its bundles; `layout` of a row counts in this list.
        rows: its bundles, in the order in which they were written; removed ones are left out.
    """

    segment: int
    blocks: int
    layouts: Sequence[Layout]
    rows: Rows


def encode(sidecar: Sidecar, namespace: bytes) -> bytes:
    """The bytes of the file: head, layouts as JSON, rows, and xxh3-128 of all of it."""
    layouts = json.dumps(sidecar.layouts, separators=(",", ":")).encode()
    head = _HEAD.pack(
        MAGIC, VERSION, sidecar.segment, namespace, sidecar.blocks, len(layouts), len(sidecar.rows)
    )
    body = head + layouts + sidecar.rows.tobytes()
    return body + checksum(body)


def decode(data: bytes, segment: int, namespace: bytes) -> Sidecar | None:
    """The index of a segment; None if the bytes are not one, whole, of this segment and namespace."""
    if len(data) < _HEAD.size + 16 or checksum(memoryview(data)[:-16]) != data[-16:]:
        return None
    magic, version, number, owner, blocks, layout_bytes, count = _HEAD.unpack_from(data)
    start = _HEAD.size + layout_bytes
    if (magic, version, number, owner) != (MAGIC, VERSION, segment, namespace):
        return None
    if len(data) != start + count * ROW.itemsize + 16:
        return None
    layouts = [tuple((str(n), int(b)) for n, b in layout) for layout in json.loads(data[_HEAD.size : start])]
    rows = np.frombuffer(data, ROW, count, start)
    if (rows["segment"] != segment).any() or (rows["layout"] >= len(layouts)).any():
        return None
    return Sidecar(number, blocks, layouts, rows)
