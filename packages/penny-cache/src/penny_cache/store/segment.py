"""The segment that is written to, until it is sealed."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from penny_cache.engine import Engine, Transfer
from penny_cache.store.files import index_path, replace, segment_path, sync_directory
from penny_cache.store.index import ROW, Index, Rows
from penny_cache.store.memory import Buffer
from penny_cache.store.records import BLOCK, Header, Kind
from penny_cache.store.sidecar import Sidecar, encode


@dataclass
class Segment:
    """An open segment.

    Attributes:
        number: of its files.
        file: descriptor of the engine.
        end: first block that is not given away.
        limit: blocks that it may grow to.
        under_way: writes that were started and are not done.
        rows: of the bundles that are written.
    """

    number: int
    file: int
    limit: int
    end: int = 1
    under_way: int = 0
    rows: list[Rows] = field(default_factory=list)

    def place(self, blocks: int) -> int | None:
        """Give `blocks` away: their first one; None if they do not fit any more."""
        if self.end + blocks > self.limit:
            return None
        self.end += blocks
        return self.end - blocks


def create(directory: Path, number: int, namespace: bytes, limit: int, engine: Engine) -> Segment:
    """Make a segment file with its first block, durably. Raises OSError."""
    path = segment_path(directory, number)
    file = engine.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    try:
        with Buffer(BLOCK) as block:
            block[:] = Header(Kind.START, namespace, number).packed()
            engine.write(Transfer(file, 0, [block])).result()
        engine.sync(file)
        sync_directory(directory)
    except BaseException:
        engine.close(file)
        path.unlink(missing_ok=True)
        raise
    return Segment(number, file, limit)


def seal(segment: Segment, directory: Path, namespace: bytes, index: Index, engine: Engine) -> None:
    """Make everything in a segment durable, then its index file. Nothing may be under way. Raises OSError."""
    os.truncate(segment_path(directory, segment.number), segment.end * BLOCK)
    engine.sync(segment.file)
    rows = np.concatenate(segment.rows) if segment.rows else np.zeros(0, ROW)
    write_index(directory, segment.number, segment.end, namespace, index, rows)


def write_index(directory: Path, number: int, end: int, namespace: bytes, index: Index, rows: Rows) -> None:
    """Write the index file of a segment; `rows` have the layout numbers of `index`. Raises OSError."""
    numbers, places = np.unique(rows["layout"], return_inverse=True)
    local = rows.copy()
    local["layout"] = places
    sidecar = Sidecar(number, end, [index.layouts[n] for n in numbers.tolist()], local)
    replace(index_path(directory, number), encode(sidecar, namespace))
