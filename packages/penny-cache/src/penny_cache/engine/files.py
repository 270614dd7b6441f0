"""What every engine of a local file system does besides moving blocks."""

from __future__ import annotations

import ctypes
import errno
import os
from collections.abc import Sequence
from pathlib import Path

from penny_cache.durable import sync_directory
from penny_cache.engine.base import Range

_KEEP_SIZE, _PUNCH_HOLE = 1, 2  # linux/falloc.h
_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)
_STATFS_BYTES = 256
"""More than any `struct statfs`, which begins with the number of the file system."""
_LENGTHENED_IN_TURN = frozenset({0xEF53, 0x58465342})
"""ext4 and xfs (linux/magic.h): direct writes behind the end of a file wait for each other there."""


class LocalFiles:
    """Names, lengths and holes of files, by the calls of the operating system.

    Args:
        direct: whether to ask for O_DIRECT. A file system without it (tmpfs, some NFS) is used through the page cache.
    """

    def __init__(self, direct: bool = True) -> None:
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

    def reserve(self, file: int, size: int) -> bool:
        """`fallocate` on ext4 and xfs; not `posix_fallocate`, which writes zeros where there is none.

        On others it gains nothing, and btrfs frees no block of what it gave at once before all of it goes.
        """
        if _file_system(file) not in _LENGTHENED_IN_TURN:
            return False
        if _libc.fallocate(file, 0, 0, size) == 0:
            return True
        os.ftruncate(file, 0)  # on a full drive it may have got some of them
        return False

    def sync(self, file: int) -> None:
        """`fdatasync`."""
        os.fdatasync(file)

    def write_file(self, path: Path, data: bytes) -> None:
        """Write a whole file and sync it."""
        flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW
        with os.fdopen(os.open(path, flags, 0o600), "wb") as stream:
            stream.write(data)
            stream.flush()
            os.fsync(stream.fileno())

    def rename(self, source: Path, target: Path) -> None:
        """`rename`."""
        os.replace(source, target)

    def unlink(self, path: Path) -> None:
        """`unlink`."""
        path.unlink(missing_ok=True)

    def truncate(self, path: Path, size: int) -> None:
        """`truncate`."""
        os.truncate(path, size)

    def punch(self, path: Path, ranges: Sequence[Range]) -> bool:
        """`fallocate` with a hole for each range."""
        file = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
        try:
            return all(_punch(file, offset, size) for offset, size in ranges)
        finally:
            os.close(file)

    def sync_directory(self, path: Path) -> None:
        """`fsync` of the directory."""
        sync_directory(path)


def _punch(file: int, offset: int, size: int) -> bool:
    if _libc.fallocate(file, _PUNCH_HOLE | _KEEP_SIZE, offset, size) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EOPNOTSUPP, errno.ENOSYS):
        return False
    raise OSError(number, os.strerror(number))


def _file_system(file: int) -> int:
    """The number of the file system that a descriptor is on; 0 if it does not say."""
    seen = ctypes.create_string_buffer(_STATFS_BYTES)
    return ctypes.c_long.from_buffer(seen).value if _libc.fstatfs(file, seen) == 0 else 0
