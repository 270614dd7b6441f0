"""`preadv` and `pwritev` in threads."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from penny_cache.engine.base import Transfer, Transferred

IOV_MAX = os.sysconf("SC_IOV_MAX")
"""Views of one call."""


class ThreadEngine:
    """Blocking calls in `depth` threads; each is one request to the drive while it lasts.

    Args:
        depth: threads, so requests under way.
        direct: whether to ask for O_DIRECT. A file system without it (tmpfs, some NFS) is used through the page cache.
    """

    name = "threads"

    def __init__(self, depth: int = 16, direct: bool = True) -> None:
        self._pool = ThreadPoolExecutor(depth, "penny-cache-io")
        self._direct = direct

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        """A descriptor; see `Engine.open`."""
        flags |= os.O_CLOEXEC | os.O_NOFOLLOW
        if self._direct:
            try:
                return os.open(path, flags | os.O_DIRECT, mode)
            except OSError as error:
                if error.errno != errno.EINVAL:
                    raise
                # The file was made all the same if it was to be.
                flags &= ~os.O_EXCL
        return os.open(path, flags, mode)

    def close(self, file: int) -> None:
        """Close a descriptor."""
        os.close(file)

    def read(self, transfer: Transfer) -> Transferred:
        """Start to read."""
        return self._pool.submit(_whole, os.preadv, transfer)

    def write(self, transfer: Transfer) -> Transferred:
        """Start to write."""
        return self._pool.submit(_whole, os.pwritev, transfer)

    def sync(self, file: int) -> None:
        """`fdatasync`."""
        os.fdatasync(file)

    def shutdown(self) -> None:
        """Wait for the threads."""
        self._pool.shutdown()


def _whole(call: Callable[[int, Sequence[memoryview], int], int], transfer: Transfer) -> None:
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
