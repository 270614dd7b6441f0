"""In which order the parts of a prefix are loaded."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from penny_cache.hybrid.rules import Rules

Do = Literal["load", "release", "copy"]


@dataclass(frozen=True)
class Step:
    """One step of a load.

    Attributes:
        do: `load` a part of a page; `release` the layers, which may run from then on, each as its keys arrive; `copy`
            the loaded snapshot for the request, whose own steps will change it.
        page: from 0; -1 where a step is of no page.
        part: name; empty where a step is of no part.
    """

    do: Do
    page: int = -1
    part: str = ""


def load_order(end: int, rules: Rules) -> Iterator[Step]:
    """The steps that restore a prefix of `end` pages.

    The siblings of the last page come first: the first layers read them, and an n-gram context that came later would be
    of another request. Then the layers are released. The snapshot that was loaded belongs to the cache: the request
    gets a copy, and only when the load is done, for a copy of half a snapshot is a snapshot of nothing.

    Raises:
        ValueError: `end` is no number of pages.
    """
    if end < 0:
        raise ValueError(f"A prefix of {end} pages cannot be loaded.")
    if not end:
        return
    last = end - 1
    for part in sorted(rules.siblings):
        yield Step("load", last, part)
    yield Step("release")
    for part in sorted(rules.snapshots - rules.siblings):
        yield Step("load", last, part)
    for page in range(end):
        for part in sorted(rules.pages):
            yield Step("load", page, part)
    if rules.snapshots:
        yield Step("copy", last)
