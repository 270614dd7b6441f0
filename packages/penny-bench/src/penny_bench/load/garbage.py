"""Python's collector of reference cycles stops every stream for as long as it works, so it works by hand here."""

import gc
from collections.abc import Iterator
from contextlib import contextmanager

EVERY = 5_000
"""Requests between two collections of a run; each may be seen as one pause in the lag of the event loop."""


@contextmanager
def collected_by_hand() -> Iterator[None]:
    """No collection but those asked for, and one before. With 1,000 streams each may take 0.1 s and more."""
    enabled = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def collect_now_and_then(ended: int) -> None:
    """Collect if a further `EVERY` requests have ended, so that a long run does not fill the memory."""
    if ended % EVERY == 0:
        gc.collect()
