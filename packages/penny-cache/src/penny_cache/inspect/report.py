"""All figures of one store."""

from __future__ import annotations

import os
from dataclasses import dataclass

import numpy as np

from penny_cache.inspect.shape import shape
from penny_cache.store import Store, Survey
from penny_cache.store.image import REMOVED
from penny_cache.store.records import BLOCK


@dataclass(frozen=True)
class PartTotal:
    """Parts of one name in all bundles: how many, and their bytes without padding."""

    count: int
    size: int


@dataclass(frozen=True)
class Report:
    """Figures of a store; bytes everywhere.

    Attributes:
        bundles: that are there.
        chains: bundles without a parent, each the start of chains.
        tails: bundles that nothing hangs on.
        branch_points: bundles that several hang on.
        depth: bundles of the longest chain.
        holes: bundles whose parent is not there.
        stranded: bundles that no chain reaches because of holes, those included.
        parts: by name.
        given_up: parts that were given up for space while their bundle stayed.
        logical: bytes of all parts.
        images: bytes of all bundles with headers and padding.
        files: bytes of the store's files, holes included.
        allocated: bytes that they take on the drive.
        sealed, unsealed: segments with an index file, and those that had to be walked.
        dropped: bundles in walked segments that were not whole.
        unreadable: segments that the drive refuses to read.
    """

    bundles: int
    chains: int
    tails: int
    branch_points: int
    depth: int
    holes: int
    stranded: int
    parts: dict[str, PartTotal]
    given_up: PartTotal
    logical: int
    images: int
    files: int
    allocated: int
    sealed: int
    unsealed: int
    dropped: int
    unreadable: int


def report(store: Store) -> Report:
    """The figures of an open store now."""
    survey, recovered = store.survey(), store.recovered
    form = shape(survey)
    parts = _parts(survey)
    given_up = parts.pop(REMOVED, PartTotal(0, 0))
    return Report(
        bundles=len(survey.rows),
        chains=len(form.starts),
        tails=len(form.tails),
        branch_points=len(form.branch_points),
        depth=int(form.depth.max(initial=0)),
        holes=len(form.holes),
        stranded=form.stranded,
        parts=parts,
        given_up=given_up,
        logical=sum(total.size for total in parts.values()),
        images=int(survey.rows["blocks"].sum(dtype=np.int64)) * BLOCK,
        files=_sizes(store),
        allocated=store.allocated,
        sealed=len(recovered.segments) - len(recovered.walked),
        unsealed=len(recovered.walked),
        dropped=recovered.dropped,
        unreadable=len(recovered.unreadable),
    )


def _parts(survey: Survey) -> dict[str, PartTotal]:
    bundles = np.bincount(survey.rows["layout"], minlength=len(survey.layouts)).tolist()
    totals: dict[str, PartTotal] = {}
    for layout, count in zip(survey.layouts, bundles, strict=True):
        for name, size in layout if count else ():
            before = totals.get(name, PartTotal(0, 0))
            totals[name] = PartTotal(before.count + count, before.size + count * size)
    return dict(sorted(totals.items()))


def _sizes(store: Store) -> int:
    with os.scandir(store.path) as entries:
        return sum(
            entry.stat(follow_symlinks=False).st_size
            for entry in entries
            if entry.name.endswith((".segment", ".index"))
        )
