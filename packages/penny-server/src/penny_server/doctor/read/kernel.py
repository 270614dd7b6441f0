"""Kernel files, and whether io_uring may be used."""

from __future__ import annotations

import ctypes
import errno
import os
from pathlib import Path

IO_URING_SETUP = 425
"""The system call's number, the same on every architecture."""
PARAMS_BYTES = 120
"""``struct io_uring_params``."""


def text(file: Path) -> str:
    """The file without white space around, empty if it is not there or not for us."""
    try:
        return file.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def io_uring_error() -> str:
    """Makes a ring of one entry and closes it; the name of the error if that is refused, else empty."""
    library = ctypes.CDLL(None, use_errno=True)
    params = ctypes.create_string_buffer(PARAMS_BYTES)
    descriptor = library.syscall(ctypes.c_long(IO_URING_SETUP), ctypes.c_uint(1), params)
    if descriptor < 0:
        number = ctypes.get_errno()
        return errno.errorcode.get(number, str(number))
    os.close(descriptor)
    return ""
