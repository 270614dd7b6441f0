"""`preadv` and `pwritev` in threads."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

from penny_cache.engine.base import Transfer, Transferred
from penny_cache.engine.files import LocalFiles

IOV_MAX = os.sysconf("SC_IOV_MAX")
"""Views of one call."""


class ThreadEngine(LocalFiles):
    """Blocking calls in `depth` threads; each is one request to the drive while it lasts.

    Args:
        depth: threads, so requests under way.
        direct: see `LocalFiles`.
    """

    name = "threads"

    def __init__(self, depth: int = 16, direct: bool = True) -> None:
        super().__init__(direct)
        self._pool = ThreadPoolExecutor(depth, "penny-cache-io")

    def read(self, transfer: Transfer) -> Transferred:
        """Start to read."""
        return self._pool.submit(whole, os.preadv, transfer)

    def write(self, transfer: Transfer) -> Transferred:
        """Start to write."""
        return self._pool.submit(whole, os.pwritev, transfer)

    def shutdown(self) -> None:
        """Wait for the threads."""
        self._pool.shutdown()


def whole(call: Callable[[int, Sequence[memoryview], int], int], transfer: Transfer) -> None:
    """Make `preadv` or `pwritev` calls until all bytes are moved.

    Raises:
        OSError: of a call; EIO for a file that ends before.
    """
    views, offset = [view for view in transfer.views if view.nbytes], transfer.offset
    while views:
        moved = call(transfer.file, views[:IOV_MAX], offset)
        if moved == 0:
            raise OSError(errno.EIO, "The file ends before the bytes that were asked for.")
        offset += moved
        while views and moved >= views[0].nbytes:
            moved -= views.pop(0).nbytes
        if moved:
            views[0] = views[0][moved:]
