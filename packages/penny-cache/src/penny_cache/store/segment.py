"""The segment that is written to, until it is sealed."""

from __future__ import annotations

import errno
import logging
import os
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from penny_cache.engine import Engine, Transfer
from penny_cache.store.files import segment_path
from penny_cache.store.index import Index
from penny_cache.store.memory import Buffer
from penny_cache.store.records import BLOCK, Header, Kind
from penny_cache.store.sidecar import Sidecar, encode

logger = logging.getLogger(__name__)


@dataclass
class Segment:
    """An open segment.

    Attributes:
        number: of its files.
        file: descriptor of the engine.
        end: first block that is not given away.
        limit: blocks that it may grow to.
        under_way: writes that were started and are not done.
        unsound: whether a sync of it failed. What the drive has is not known then, and a later sync that succeeds does
            not tell, so nothing in it is called durable any more.
        named: whether its name would survive a power cut.
        sealing: whether it is being sealed.
    """

    number: int
    file: int
    limit: int
    end: int = 1
    under_way: int = 0
    unsound: bool = False
    named: bool = False
    sealing: bool = False

    def place(self, blocks: int) -> int | None:
        """Give `blocks` away: their first one; None if they do not fit any more."""
        if self.end + blocks > self.limit:
            return None
        self.end += blocks
        return self.end - blocks


def create(directory: Path, number: int, namespace: bytes, limit: int, engine: Engine) -> Segment:
    """Make a segment file with its first block; the first sync makes it durable. Raises OSError."""
    path = segment_path(directory, number)
    file = engine.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL)
    try:
        engine.reserve(file, limit * BLOCK)
        with Buffer(BLOCK) as block:
            block[:] = Header(Kind.START, namespace, number).packed()
            engine.write(Transfer(file, 0, [block])).result()
    except BaseException:
        engine.close(file)
        try:
            engine.unlink(path)
        except OSError as error:
            # An empty segment, which the next opening removes; why it was not written is what the caller is told.
            logger.warning("%s was not written and stays: %s", path, error)
        raise
    return Segment(number, file, limit)


def sync(segment: Segment, directory: Path, engine: Engine) -> None:
    """Make durable what was written to a segment. Raises OSError."""
    if segment.unsound:
        raise OSError(errno.EIO, "an earlier sync of its segment failed")
    try:
        engine.sync(segment.file)
        if not segment.named:
            engine.sync_directory(directory)
            segment.named = True
    except OSError:
        segment.unsound = True
        raise


def close_up(segment: Segment, directory: Path, engine: Engine) -> None:
    """Make all of a segment durable and its file no longer than that. Nothing may be under way. Raises OSError."""
    engine.truncate(segment_path(directory, segment.number), segment.end * BLOCK)
    sync(segment, directory, engine)


def index_of(number: int, end: int, namespace: bytes, index: Index) -> bytes:
    """The index file of a segment: its bundles that are there. Quick, for the caller holds the index meanwhile."""
    rows = index.rows_of(number)
    numbers, places = np.unique(rows["layout"], return_inverse=True)
    rows["layout"] = places
    return encode(Sidecar(number, end, [index.layouts[n] for n in numbers.tolist()], rows), namespace)
