"""Opening a store: the rows of sealed segments come from their index files, those of others from a walk."""

from __future__ import annotations

import errno
import logging
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from penny_cache.engine import Engine, Transfer
from penny_cache.store import files, sidecar, snapshot
from penny_cache.store.errors import StoreError, StoreVersion
from penny_cache.store.image import Layout, check_image
from penny_cache.store.index import ROW, Index
from penny_cache.store.memory import Buffer
from penny_cache.store.reading import SHORTAGE
from penny_cache.store.records import BLOCK, foreign_version
from penny_cache.store.segment import index_of
from penny_cache.store.walk import Found, walk

logger = logging.getLogger(__name__)

WINDOW = 64
"""Blocks that a walk reads at once."""


@dataclass
class Recovered:
    """What opening a store found.

    Attributes:
        index: its bundles.
        segments: blocks of each segment, by number.
        next_segment, sequence: the first numbers that no file and no bundle has.
        walked: segments without a whole index file.
        stale: segments with bundles that newer ones of other segments replace.
        unreadable: segments that the drive refused to read; their bundles are not there until it does.
        dropped: bundles of walked segments whose payload was not what it should be.
    """

    index: Index = field(default_factory=Index)
    segments: dict[int, int] = field(default_factory=dict)
    next_segment: int = 1
    sequence: int = 1
    walked: list[int] = field(default_factory=list)
    stale: set[int] = field(default_factory=set)
    unreadable: list[int] = field(default_factory=list)
    dropped: int = 0


def recover(
    directory: Path,
    namespace: bytes,
    engine: Engine,
    *,
    repair: bool,
    progress: Callable[[int, int], None] = lambda done, of: None,
) -> Recovered:
    """Read what is in a store's directory.

    Args:
        directory, namespace, engine: of the store.
        repair: for the writer. Payloads of walked segments are verified, the segments get an index file, and files that
            a writer left half done go. A reader leaves that to the writer, and finds damage when it reads it.
        progress: told how many segments are done, of how many.

    Raises:
        StoreVersion: a segment is of another version of the format.
        StoreError: the file system refused.
    """
    return _Recovery(directory, namespace, engine, repair).run(progress)


class _Recovery:
    def __init__(self, directory: Path, namespace: bytes, engine: Engine, repair: bool) -> None:
        self._directory, self._namespace, self._engine, self._repair = directory, namespace, engine, repair
        self._found = Recovered()
        self._rows: list[memoryview] = []

    def run(self, progress: Callable[[int, int], None]) -> Recovered:
        found = self._found
        if self._snapshot():
            return found
        segments, indexes = files.segments(self._directory), files.indexes(self._directory)
        found.next_segment = max([0, *segments, *indexes]) + 1
        for done, number in enumerate(segments):
            progress(done, len(segments))
            try:
                self._segment(number)
            except FileNotFoundError:
                continue  # its writer removed it just now
            except OSError as error:
                if error.errno in SHORTAGE:
                    raise StoreError(f"{self._directory} cannot be opened: {error.strerror}.") from error
                found.unreadable.append(number)
                logger.warning("The segment %d of %s cannot be read: %s", number, self._directory, error)
        progress(len(segments), len(segments))
        if any(self._rows):
            # Bytes, for numpy would take each field of each row by itself.
            found.index.adopt(np.frombuffer(bytearray().join(self._rows), ROW))
        found.index.forget_replaced()
        found.stale = set(found.index.rows["segment"][~found.index.alive].tolist())
        if len(found.index.rows):
            found.sequence = int(found.index.rows["sequence"].max()) + 1
        # An index may leave out what a later segment replaces: that one must have its name for good first.
        if found.walked and self._repair and self._sync_names():
            for number in found.walked:
                self._seal(number)
        if self._repair:
            self._tidy(set(indexes) - set(segments))
        return found

    def _snapshot(self) -> bool:
        """Take all from the snapshot, if there is one that holds."""
        kept = snapshot.read(self._directory, self._namespace, files.listing(self._directory))
        if self._repair:
            # It holds until something changes: then it would not fit the files, but better it is not there at all.
            self._remove([self._directory / files.SNAPSHOT, *files.unfinished(self._directory)])
            self._sync_names()
        if kept is None:
            return False
        found = self._found
        found.index.restore(kept.layouts, kept.rows, kept.used)
        found.segments, found.next_segment, found.sequence = kept.segments, kept.next_segment, kept.sequence
        return True

    def _segment(self, number: int) -> None:
        path = files.segment_path(self._directory, number)
        blocks = path.stat().st_size // BLOCK
        beside = self._beside(number)
        if beside is not None and beside.blocks <= blocks:
            self._add(beside)
            self._found.segments[number] = beside.blocks
            return
        with self._opened(path) as file:
            read = Window(file, self._engine)
            version = foreign_version(read(0)) if blocks else None
            if version is not None:
                raise StoreVersion(
                    f"{path} has format version {version}, which this penny-cache does not read; "
                    "use the one that wrote it."
                )
            bundles = list(walk(read, self._namespace, blocks, skip=read.skip))
            if self._repair:
                whole = [kept for one in bundles if (kept := self._verified(file, one))]
                self._found.dropped += len(bundles) - len(whole)
                bundles = whole
                self._engine.sync(file)  # so that all that the index file will name is durable
        self._found.walked.append(number)
        end = max((b.offset + b.blocks for b in bundles), default=1)
        self._add(_as_sidecar(number, end, bundles))
        self._found.segments[number] = end

    def _beside(self, number: int) -> sidecar.Sidecar | None:
        try:
            data = files.index_path(self._directory, number).read_bytes()
        except FileNotFoundError:
            return None
        except OSError as error:
            if error.errno in SHORTAGE:
                raise
            return None
        return sidecar.decode(data, number, self._namespace)

    @contextmanager
    def _opened(self, path: Path) -> Iterator[int]:
        file = self._engine.open(path, os.O_RDONLY)
        try:
            yield file
        finally:
            self._engine.close(file)

    def _verified(self, file: int, one: Found) -> Found | None:
        """The bundle; None if a part is not what its header says."""
        with Buffer(one.blocks * BLOCK) as view:
            self._engine.read(Transfer(file, one.offset * BLOCK, [view])).result()
            return None if check_image(view, one.bundle, one.layout) else one

    def _add(self, beside: sidecar.Sidecar) -> None:
        index = self._found.index
        numbers = [index.layout_number(layout) for layout in beside.layouts]
        rows = beside.rows
        if numbers != list(range(len(numbers))):
            rows = rows.copy()
            rows["layout"] = np.array(numbers, np.uint32)[rows["layout"]]
        self._rows.append(rows.view(np.uint8).data)

    def _seal(self, number: int) -> None:
        path, end = files.segment_path(self._directory, number), self._found.segments[number]
        try:
            self._engine.truncate(path, end * BLOCK)
            data = index_of(number, end, self._namespace, self._found.index)
            files.replace(files.index_path(self._directory, number), data, self._engine)
        except OSError as error:
            # The next opening walks it again.
            logger.warning("The segment %d of %s was not sealed: %s", number, self._directory, error)

    def _tidy(self, orphans: set[int]) -> None:
        empty = set(self._found.segments) - set(np.unique(self._found.index.rows["segment"]).tolist())
        self._remove([files.segment_path(self._directory, number) for number in empty])
        # A power cut must not keep a segment and lose the index that says that it is empty.
        if not empty or self._sync_names():
            self._remove([files.index_path(self._directory, number) for number in orphans | empty])

    def _sync_names(self) -> bool:
        try:
            self._engine.sync_directory(self._directory)
        except OSError as error:
            logger.warning("The directory %s cannot be synced: %s", self._directory, error)
            return False
        return True

    def _remove(self, paths: list[Path]) -> None:
        for path in paths:
            try:
                self._engine.unlink(path)
            except OSError as error:
                logger.warning("%s was left over and cannot be removed: %s", path, error)


class Window:
    """Reads single blocks of a file, many at once."""

    def __init__(self, file: int, engine: Engine) -> None:
        self._file, self._engine = file, engine
        self._end = os.fstat(file).st_size // BLOCK
        self._first = 0
        self._data = b""

    def __call__(self, block: int) -> bytes:
        """A block by number; no bytes behind the last whole one. Raises OSError."""
        at = (block - self._first) * BLOCK
        if not 0 <= at < len(self._data):
            count = min(WINDOW, self._end - block)
            if count <= 0:
                return b""
            with Buffer(count * BLOCK) as view:
                self._engine.read(Transfer(self._file, block * BLOCK, [view])).result()
                self._first, self._data, at = block, bytes(view), 0
        return self._data[at : at + BLOCK]

    def skip(self, block: int) -> int:
        """The first block from `block` on that is not in a hole: a segment has its blocks before they are written."""
        try:
            return os.lseek(self._file, block * BLOCK, os.SEEK_DATA) // BLOCK
        except OSError as error:
            # Behind the last data; or this file system knows no holes.
            return self._end if error.errno == errno.ENXIO else block


def _as_sidecar(number: int, end: int, bundles: list[Found]) -> sidecar.Sidecar:
    layouts: dict[Layout, int] = {}
    rows = np.zeros(len(bundles), ROW)
    for i, one in enumerate(bundles):
        layout = layouts.setdefault(one.layout, len(layouts))
        b = one.bundle
        rows[i] = (b.key, b.parent, b.sequence, number, one.offset, one.blocks, layout)
    return sidecar.Sidecar(number, end, list(layouts), rows)
