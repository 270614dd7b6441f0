"""Folders and the speed of the drives under them."""

from __future__ import annotations

import mmap
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil

from penny_server.doctor.facts import Folder, Rate

BLOCK = 4 << 20
THREADS = 4
"""Requests in flight at once: with one, an NVMe drive gives a fraction of its rate."""
MOST = 2 << 30
SHARE = 0.02
"""At most this share of the free space is written."""
Transfer = Callable[[int, mmap.mmap, int], int]


def read_folder(path: Path) -> Folder:
    """The state of ``path``, or of the nearest folder above it that exists."""
    path = Path(path).expanduser().absolute()
    nearest = path
    while not nearest.exists() and nearest != nearest.parent:
        nearest = nearest.parent
    state = os.statvfs(nearest)
    refused = ""
    if not nearest.is_dir():
        refused = f"{nearest} is a file"
    elif state.f_flag & os.ST_RDONLY:
        refused = "the file system is mounted read-only"
    elif not os.access(nearest, os.W_OK | os.X_OK):
        refused = f"this user may not write in {nearest}"
    return Folder(
        path=path,
        nearest=nearest,
        refused=refused,
        free=state.f_bavail * state.f_frsize,
        inodes=state.f_favail if state.f_files else None,
        kind=_kind(nearest),
        noexec=bool(state.f_flag & os.ST_NOEXEC),
        device=nearest.stat().st_dev,
    )


def _kind(path: Path) -> str:
    mounts = [part for part in psutil.disk_partitions(all=True) if path.is_relative_to(part.mountpoint)]
    best = max(mounts, key=lambda part: len(part.mountpoint), default=None)
    return best.fstype if best else ""


def write_rate(folder: Path, seconds: float) -> Rate:
    """Writes and reads a file without a name in ``folder`` for up to ``seconds`` each; it is gone afterwards."""
    state = read_folder(folder)
    size = min(MOST, int(state.free * SHARE)) // BLOCK * BLOCK
    if state.refused or size < BLOCK:
        return Rate(note=state.refused or f"only {state.free:,} bytes are free")
    try:
        with tempfile.TemporaryFile(dir=state.nearest, buffering=0) as file:
            direct = _direct(file.fileno())
            written, write = _timed(file.fileno(), size, seconds, _write)
            os.fsync(file.fileno())
            _, read = _timed(file.fileno(), written, seconds, _read)
    except OSError as error:
        return Rate(note=error.strerror or str(error))
    note = "" if direct else "this file system has no direct I/O, so memory may have answered"
    return Rate(read, write, direct, note)


def read_rate(file: Path, seconds: float) -> Rate:
    """Reads ``file`` past the page cache for up to ``seconds``."""
    try:
        descriptor = os.open(file, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        return Rate(note=error.strerror or str(error))
    try:
        direct = _direct(descriptor)
        size = min(MOST, os.fstat(descriptor).st_size) // BLOCK * BLOCK
        if size < THREADS * BLOCK:
            return Rate(direct=direct, note="the file is too small to measure")
        _, read = _timed(descriptor, size, seconds, _read)
    except OSError as error:
        return Rate(note=error.strerror or str(error))
    finally:
        os.close(descriptor)
    return Rate(read=read, direct=direct)


def _direct(descriptor: int) -> bool:
    import fcntl

    try:
        fcntl.fcntl(descriptor, fcntl.F_SETFL, fcntl.fcntl(descriptor, fcntl.F_GETFL) | os.O_DIRECT)
    except OSError:
        return False
    return True


def _write(descriptor: int, buffer: mmap.mmap, offset: int) -> int:
    return os.pwritev(descriptor, [buffer], offset)


def _read(descriptor: int, buffer: mmap.mmap, offset: int) -> int:
    return os.preadv(descriptor, [buffer], offset)


def _timed(descriptor: int, size: int, seconds: float, transfer: Transfer) -> tuple[int, float]:
    """Moves blocks up to ``size`` or ``seconds``; the bytes up to the last whole block, and bytes a second."""
    begin = time.perf_counter()
    blocks = iter(range(0, size, BLOCK))
    filling = os.urandom(BLOCK)

    def work() -> tuple[int, int]:
        moved = last = 0
        with mmap.mmap(-1, BLOCK) as buffer:
            buffer.write(filling)
            while time.perf_counter() - begin < seconds or not moved:
                offset = next(blocks, None)
                if offset is None:
                    break
                moved += transfer(descriptor, buffer, offset)
                last = offset + BLOCK
        return moved, last

    with ThreadPoolExecutor(THREADS) as pool:
        done = [future.result() for future in [pool.submit(work) for _ in range(THREADS)]]
    elapsed = time.perf_counter() - begin
    return max(last for _, last in done), sum(moved for moved, _ in done) / elapsed
