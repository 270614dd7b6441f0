"""Bundles of a store into an archive."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from penny_cache.archive.format import ArchiveError, Head, Tail
from penny_cache.inspect.shape import Numbers, Shape, shape
from penny_cache.namespace import Namespace, manifest
from penny_cache.store import Digest, Store, Survey
from penny_cache.store.image import Bundle, fill, image_blocks, layout_of, seal
from penny_cache.store.records import BLOCK, blocks

Progress = Callable[[int, int], None]
"""Told the bytes that are done, of how many."""


@dataclass(frozen=True)
class Written:
    """What came of it.

    Attributes:
        bundles, size: in the archive; bytes of the images.
        lost: bundles that did not come from the store, or all of whose parts were given up.
    """

    bundles: int
    size: int
    lost: int


def write(
    store: Store,
    namespace: Namespace,
    stream: BinaryIO,
    *,
    ends: list[bytes] | None = None,
    progress: Progress = lambda done, of: None,
) -> Written:
    """Write all bundles of a store, or those of some chains.

    Args:
        store: open, for reading will do.
        namespace: of the store.
        stream: takes the bytes, in order.
        ends: keys (32 bytes) of the last bundles of the chains; None for everything.
        progress: called after each bundle.

    Raises:
        ArchiveError: a bundle of `ends` is not there.
        OSError: the stream does not take them.
    """
    survey = store.survey()
    form = shape(survey)
    chosen = np.ones(len(survey.rows), bool) if ends is None else _above(survey, form, ends)
    paths = [path[chosen[path]] for path in form.paths()]
    total = int(survey.rows["blocks"][chosen].sum(dtype=np.int64))
    text = manifest.encode(namespace.identity)
    stream.write(Head(len(text), int(np.count_nonzero(chosen)), total).packed())
    stream.write(text.ljust(blocks(len(text)) * BLOCK, b"\0"))
    owner = bytes.fromhex(namespace.identity.digest)
    bundles = written = read = lost = 0
    for path in paths:
        at = 0
        while at < len(path):
            rest = path[at:]
            for loaded in store.load([Digest(key.tobytes()) for key in survey.rows["key"][rest]]):
                row = survey.rows[rest[loaded.position]]
                at += 1
                read += int(row["blocks"]) * BLOCK
                progress(read, total * BLOCK)
                if not loaded.parts:
                    lost += 1
                    continue
                bundle = Bundle(owner, row["key"].tobytes(), row["parent"].tobytes(), int(row["sequence"]))
                image = _image(bundle, loaded.parts)
                stream.write(image)
                bundles, written = bundles + 1, written + len(image)
            if at < len(path):
                lost, at = lost + 1, at + 1
    stream.write(Tail(bundles, written // BLOCK).packed())
    return Written(bundles, written, lost)


def _image(bundle: Bundle, parts: Mapping[str, memoryview]) -> memoryview:
    layout = layout_of(parts)
    image = memoryview(bytearray(image_blocks(layout) * BLOCK))
    fill(image, parts)
    seal(image, bundle, layout)
    return image


def _above(survey: Survey, form: Shape, ends: list[bytes]) -> Numbers:
    """Which rows are on the chains that end at these keys."""
    rows = {key.tobytes(): row for row, key in enumerate(survey.rows["key"])}
    chosen = np.zeros(len(survey.rows), bool)
    for key in ends:
        row = rows.get(key, -1)
        if row < 0:
            raise ArchiveError(f"There is no bundle with the key {key.hex()}.")
        while row >= 0 and not chosen[row]:
            chosen[row] = True
            row = int(form.parents[row])
    return chosen
