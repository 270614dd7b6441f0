"""A reader beside the writer: whatever the writer does meanwhile, what it finds is right or it finds nothing."""

from __future__ import annotations

import random
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from penny_cache.engine import ThreadEngine
from penny_cache.namespace import Namespace
from penny_cache.store import open_store
from penny_cache.torture.pages import Forest
from penny_cache.torture.result import Result
from penny_cache.torture.workload import SETTINGS, other_bytes


@contextmanager
def reading(here: Namespace, forest: Forest, pages: int, result: Result, where: str) -> Iterator[None]:
    """Have a thread that reads chains of the first so many pages, again and again, until the block ends."""
    over = threading.Event()
    thread = threading.Thread(target=_read, args=(here, forest, pages, result, where, over))
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _read(
    here: Namespace, forest: Forest, pages: int, result: Result, where: str, over: threading.Event
) -> None:
    draw = random.Random(where)
    with (
        result.judging(f"{where}, a reader beside it"),
        open_store(here, writable=False, settings=SETTINGS, engine=ThreadEngine(2)) as store,
    ):
        while not over.wait(0.01):
            chain = forest.chain(draw.randrange(pages))
            for one in store.load([forest.key(page) for page in chain]):
                result.notes["read beside a writer"] += 1
                if said := other_bytes(forest, chain[one.position], one.parts):
                    result.fault(f"{where}, a reader beside it", "wrong", said)
            if draw.random() < 0.3:
                result.notes["refreshed"] += store.refresh()
