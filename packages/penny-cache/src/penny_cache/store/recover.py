"""Opening a store: the rows of sealed segments come from their index files, those of others from a walk."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from penny_cache.engine import Engine, Transfer
from penny_cache.store import files, sidecar
from penny_cache.store.errors import StoreError, StoreVersion
from penny_cache.store.image import Bundle, Layout, damaged, places
from penny_cache.store.index import ROW, Index
from penny_cache.store.memory import Buffer
from penny_cache.store.records import BLOCK, foreign_version, unpack
from penny_cache.store.segment import index_of
from penny_cache.store.walk import Found, walk


@dataclass
class Recovered:
    """What opening a store found.

    Attributes:
        index: its bundles.
        segments: blocks of each segment, by number.
        sequence: the first number that no bundle has.
        walked: segments without a whole index file.
        dropped: bundles of those whose payload was not what it should be.
    """

    index: Index = field(default_factory=Index)
    segments: dict[int, int] = field(default_factory=dict)
    sequence: int = 1
    walked: list[int] = field(default_factory=list)
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
        repair: for the writer. Payloads of walked segments are verified, and the segments get an index file; a reader
            leaves both to the writer, and finds a damaged payload when it reads it.
        progress: told how many segments are done, of how many.

    Raises:
        StoreVersion: a segment is of another version of the format.
        StoreError: the file system refused.
    """
    found = Recovered()
    numbers = files.segments(directory)
    for done, number in enumerate(numbers):
        progress(done, len(numbers))
        try:
            _one(directory, number, namespace, engine, repair, found)
        except OSError as error:
            raise StoreError(
                f"The segment {number} of {directory} cannot be read: {error.strerror}."
            ) from error
    progress(len(numbers), len(numbers))
    found.index.forget_replaced()
    if len(found.index.rows):
        found.sequence = int(found.index.rows["sequence"].max()) + 1
    return found


def _one(
    directory: Path, number: int, namespace: bytes, engine: Engine, repair: bool, found: Recovered
) -> None:
    path = files.segment_path(directory, number)
    blocks = path.stat().st_size // BLOCK
    beside = _sidecar(directory, number, namespace)
    if beside is not None and beside.blocks <= blocks:
        _add(found.index, beside)
        found.segments[number] = beside.blocks
        return
    file = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        version = foreign_version(os.pread(file, BLOCK, 0))
        if version is not None:
            raise StoreVersion(
                f"{path} has format version {version}, which this penny-cache does not read; use the one that wrote it."
            )
        bundles = list(walk(lambda block: os.pread(file, BLOCK, block * BLOCK), namespace, blocks))
    finally:
        os.close(file)
    found.walked.append(number)
    if repair:
        whole = _whole(path, bundles, engine)
        found.dropped += len(bundles) - len(whole)
        bundles = whole
    end = max((b.offset + b.blocks for b in bundles), default=1)
    _add(found.index, _as_sidecar(number, end, bundles))
    found.segments[number] = blocks
    if repair:
        engine.truncate(path, end * BLOCK)
        files.replace(
            files.index_path(directory, number), index_of(number, end, namespace, found.index), engine
        )
        found.segments[number] = end


def _sidecar(directory: Path, number: int, namespace: bytes) -> sidecar.Sidecar | None:
    try:
        data = files.index_path(directory, number).read_bytes()
    except FileNotFoundError:
        return None
    return sidecar.decode(data, number, namespace)


def _as_sidecar(number: int, end: int, bundles: list[Found]) -> sidecar.Sidecar:
    layouts: dict[Layout, int] = {}
    rows = np.zeros(len(bundles), ROW)
    for i, one in enumerate(bundles):
        layout = layouts.setdefault(one.layout, len(layouts))
        b = one.bundle
        rows[i] = (b.key, b.parent, b.sequence, number, one.offset, one.blocks, layout)
    return sidecar.Sidecar(number, end, list(layouts), rows)


def _add(index: Index, beside: sidecar.Sidecar) -> None:
    numbers = np.array([index.layout_number(layout) for layout in beside.layouts], np.uint32)
    rows = beside.rows.copy()
    rows["segment"] = beside.segment
    if len(numbers):
        rows["layout"] = numbers[rows["layout"]]
    index.add(rows)


def _whole(path: Path, bundles: list[Found], engine: Engine) -> list[Found]:
    """Those whose payloads are what their headers say."""
    file = engine.open(path, os.O_RDONLY)
    try:
        return [one for one in bundles if not _damage(file, one, engine)]
    finally:
        engine.close(file)


def _damage(file: int, one: Found, engine: Engine) -> str:
    with Buffer(one.blocks * BLOCK) as view:
        engine.read(Transfer(file, one.offset * BLOCK, [view])).result()
        return check_image(view, one.bundle, one.layout)


def check_image(view: memoryview, bundle: Bundle, layout: Layout) -> str:
    """Why an image that was read is not the bundle; empty when it is."""
    spots = list(places(layout))
    headers = [unpack(view[header : header + BLOCK]) for _, header, _, _ in spots]
    return damaged(headers, [view[start : start + length] for _, _, start, length in spots], bundle, layout)
