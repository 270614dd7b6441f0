"""Reading every bundle of a store."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, field

from penny_cache.engine import ThreadEngine
from penny_cache.inspect.shape import shape
from penny_cache.namespace import Namespace
from penny_cache.store import Digest, Settings, Store, Survey, open_store
from penny_cache.store.files import segment_path
from penny_cache.store.image import Bundle, check_image
from penny_cache.store.index import Rows
from penny_cache.store.records import BLOCK

Progress = Callable[[int, int], None]
"""Told bundles and bytes that are done."""


@dataclass(frozen=True)
class Damage:
    """A bundle that is not what was stored: its key, where it lies, and what is wrong, as the end of a sentence."""

    key: bytes
    segment: int
    block: int
    why: str


@dataclass
class Verified:
    """What came of it.

    Attributes:
        bundles, size: that were read and are whole; bytes of their images.
        damaged: those that are not.
        gone: bundles that a running writer gave up or replaced meanwhile.
    """

    bundles: int = 0
    size: int = 0
    damaged: list[Damage] = field(default_factory=list)
    gone: int = 0


def verify(store: Store, namespace: Namespace, progress: Progress = lambda bundles, size: None) -> Verified:
    """Read every bundle of an open store and compare all checksums. May be slow; works beside a running writer.

    What does not come is looked up once more in a fresh reader, since the writer may have given it up or moved it.

    Args:
        store: open for reading or writing; it forgets in memory what is damaged.
        namespace: of the store.
        progress: called after each bundle.

    Raises:
        StoreError: the store cannot be read any more.
    """
    survey = store.survey()
    done = Verified()
    missed: list[int] = []
    for path in shape(survey).paths():
        keys = [Digest(key.tobytes()) for key in survey.rows["key"][path]]
        at = 0
        while at < len(keys):
            for _ in store.load(keys[at:]):
                done.bundles += 1
                done.size += int(survey.rows["blocks"][path[at]]) * BLOCK
                at += 1
                progress(done.bundles + len(missed), done.size)
            if at < len(keys):
                missed.append(int(path[at]))
                at += 1
                progress(done.bundles + len(missed), done.size)
    if missed:
        _look_again(survey.rows["key"][missed], namespace, store, done)
    return done


def _look_again(keys: Rows, namespace: Namespace, store: Store, done: Verified) -> None:
    settings = Settings(read_memory=store.settings.read_memory)
    with open_store(namespace, writable=False, settings=settings, engine=ThreadEngine()) as fresh:
        survey = fresh.survey()
        rows = {key.tobytes(): row for row, key in enumerate(survey.rows["key"])}
        for key in (key.tobytes() for key in keys):
            row = rows.get(key)
            if row is None or any(True for _ in fresh.load([Digest(key)])):
                done.gone += 1
                continue
            found = survey.rows[row]
            why = _why(fresh, survey, row, bytes.fromhex(namespace.identity.digest))
            done.damaged.append(Damage(key, int(found["segment"]), int(found["offset"]), why))


def _why(store: Store, survey: Survey, row: int, namespace: bytes) -> str:
    found = survey.rows[row]
    bundle = Bundle(namespace, found["key"].tobytes(), found["parent"].tobytes(), int(found["sequence"]))
    size, start = int(found["blocks"]) * BLOCK, int(found["offset"]) * BLOCK
    try:
        file = os.open(segment_path(store.path, int(found["segment"])), os.O_RDONLY | os.O_NOFOLLOW)
        try:
            data = os.pread(file, size, start)
        finally:
            os.close(file)
    except OSError as error:
        return f"its file cannot be read ({error.strerror})"
    if len(data) < size:
        return "its file ends before it does"
    layout = survey.layouts[int(found["layout"])]
    return check_image(memoryview(data), bundle, layout) or "the drive gave other bytes than before"
