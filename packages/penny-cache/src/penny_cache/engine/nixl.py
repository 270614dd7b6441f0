"""NIXL's POSIX backend: one io_uring for all transfers of an engine."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import numpy as np

from penny_cache.engine.agent import Agent, Piece
from penny_cache.engine.base import Transfer, Transferred
from penny_cache.engine.files import LocalFiles
from penny_cache.engine.pump import Pump
from penny_cache.engine.threads import whole

ALIGNMENT = 4096
PIECE = 4 << 20
"""Most bytes of one request. Linux moves up to 2 GiB less a page at once; smaller pieces keep the queue filled."""
_SMALLEST_POOL = 64


class NixlEngine(LocalFiles):
    """Transfers as io_uring requests of NIXL, `depth` of them under way at most.

    Each descriptor is registered with NIXL when it is opened and forgotten when it is closed. Open descriptors have
    pairwise different numbers, so what one part of a program closes is never what another one reads, two descriptors of
    the same path included.

    NIXL says that a transfer failed, or moved less than was asked for, but not why. Such a transfer is repeated with
    `preadv` or `pwritev`, which gives the operating system's error, the same as that of `ThreadEngine`: EIO for a file
    that is too short, ENOSPC, EBADF.

    Args:
        depth: requests under way.
        direct: see `LocalFiles`.

    Raises:
        NixlMissing: NIXL is not installed, or io_uring is refused.
    """

    name = "nixl"

    def __init__(self, depth: int = 64, direct: bool = True) -> None:
        super().__init__(direct)
        size = str(max(depth, _SMALLEST_POOL))
        self._agent = Agent(
            "POSIX",
            "FILE",
            {"use_uring": "true", "use_aio": "false", "ios_pool_size": size, "kernel_queue_size": size},
        )
        self._pump = Pump(self._agent, depth, "penny-cache-nixl")

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        """A descriptor that NIXL knows; see `Engine.open`."""
        file = super().open(path, flags, mode)
        try:
            self._agent.register(file)
        except BaseException:
            os.close(file)
            raise
        return file

    def close(self, file: int) -> None:
        """Make NIXL forget a descriptor, then close it: its number is free for others from there on."""
        self._agent.deregister(file)
        super().close(file)

    def read(self, transfer: Transfer) -> Transferred:
        """Start to read."""
        return self._submit(False, transfer)

    def write(self, transfer: Transfer) -> Transferred:
        """Start to write."""
        return self._submit(True, transfer)

    def shutdown(self) -> None:
        """Wait for what is under way."""
        self._pump.close()

    def _submit(self, write: bool, transfer: Transfer) -> Transferred:
        def again(error: OSError) -> None:
            whole(os.pwritev if write else os.preadv, transfer)

        try:
            pieces, memory = _pieces(transfer)
        except OSError as error:
            refused = Transferred()
            refused.set_exception(error)
            return refused
        return self._pump.submit(write, transfer.file, pieces, memory, again)


def _pieces(transfer: Transfer) -> tuple[list[Piece], list[Any]]:
    """The requests of a transfer, and what holds their memory.

    Raises:
        OSError: EINVAL, something is not aligned.
    """
    arrays = [np.frombuffer(view, np.uint8) for view in transfer.views if view.nbytes]
    at = transfer.offset
    pieces: list[Piece] = []
    for array in arrays:
        address, size = array.ctypes.data, array.nbytes
        if address % ALIGNMENT or size % ALIGNMENT or at % ALIGNMENT:
            raise OSError(
                errno.EINVAL,
                f"{size} bytes at {address:#x} to or from byte {at} of a file are not all whole blocks of {ALIGNMENT}.",
            )
        for done in range(0, size, PIECE):
            pieces.append((address + done, min(PIECE, size - done), at + done))
        at += size
    return pieces, list(arrays)
