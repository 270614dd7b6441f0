"""Holes in files: giving bytes in the middle of a segment back to the file system."""

from __future__ import annotations

import ctypes
import errno
import os

_KEEP_SIZE, _PUNCH_HOLE = 1, 2
_libc = ctypes.CDLL(None, use_errno=True)
_libc.fallocate.argtypes = (ctypes.c_int, ctypes.c_int, ctypes.c_int64, ctypes.c_int64)


def punch(file: int, offset: int, size: int) -> bool:
    """Make a hole; False where the file system has none. The bytes read as zeros afterwards.

    Raises:
        OSError: it refused for another reason.
    """
    if _libc.fallocate(file, _PUNCH_HOLE | _KEEP_SIZE, offset, size) == 0:
        return True
    number = ctypes.get_errno()
    if number in (errno.EOPNOTSUPP, errno.ENOSYS):
        return False
    raise OSError(number, os.strerror(number))
