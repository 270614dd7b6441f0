"""Which engine a store gets when its user names none."""

from __future__ import annotations

import ctypes
import errno
import functools
import logging
import mmap
import os
import tempfile
from pathlib import Path

from penny_cache.engine.agent import NixlMissing
from penny_cache.engine.base import Engine, Transfer
from penny_cache.engine.nixl import ALIGNMENT, NixlEngine
from penny_cache.engine.threads import ThreadEngine

logger = logging.getLogger(__name__)

_IO_URING_SETUP = 425  # the same number on all architectures
PIECES = 4
"""NIXL moves each view of a transfer by a request of its own; a page of a bundle has so many."""
_said: set[str] = set()


def default_engine(depth: int = 16, direct: bool = True, directory: Path | None = None) -> Engine:
    """NIXL's io_uring where it works, else threads; the reason for threads is logged, once in a process.

    Args:
        depth: requests under way.
        direct: whether to ask for O_DIRECT.
        directory: of the store; whether its file system has O_DIRECT is looked at.
    """
    name, reason = explain(direct, directory)
    if name == NixlEngine.name:
        return NixlEngine(PIECES * depth, direct)
    if reason not in _said:
        _said.add(reason)
        logger.warning("penny-cache moves blocks with threads and not with NIXL: %s.", reason)
    return ThreadEngine(depth, direct)


def explain(direct: bool = True, directory: Path | None = None) -> tuple[str, str]:
    """The name of the engine that `default_engine` makes, and why it is that one."""
    if not direct:
        return (
            ThreadEngine.name,
            "O_DIRECT is not wanted, and copies from the page cache go faster in many threads",
        )
    if directory is not None and not has_direct(directory):
        return (
            ThreadEngine.name,
            f"the file system of {directory} has no O_DIRECT, and copies from the page cache go faster in many threads",
        )
    if reason := _refusal():
        return ThreadEngine.name, reason
    return NixlEngine.name, "NIXL's io_uring works in this process"


def has_direct(directory: Path) -> bool:
    """Whether a file in `directory` can be opened with O_DIRECT; yes where no file can be made to find out."""
    try:
        os.close(os.open(directory, os.O_TMPFILE | os.O_RDWR | os.O_DIRECT | os.O_CLOEXEC, 0o600))
    except OSError as error:
        return error.errno != errno.EINVAL
    return True


@functools.cache
def _refusal() -> str:
    """Why NIXL is not used in this process, from one real transfer; empty where it works."""
    if number := _io_uring_error():
        return (
            f"the kernel refuses io_uring ({os.strerror(number)}); a container's seccomp profile and the setting "
            "kernel.io_uring_disabled can do that"
        )
    try:
        engine = NixlEngine(depth=1, direct=False)
    except NixlMissing as error:
        return f"NIXL cannot be used ({error})"
    try:
        _try(engine)
    except TimeoutError:
        # Shutting down would wait for it as well.
        return "a first transfer of NIXL did not end within ten seconds"
    except OSError as error:
        engine.shutdown()
        return f"a first transfer of NIXL failed ({error})"
    engine.shutdown()
    return ""


def _io_uring_error() -> int:
    """Errno of making the smallest ring; 0 if it can be made."""
    libc = ctypes.CDLL(None, use_errno=True)
    ring: int = libc.syscall(_IO_URING_SETUP, 1, ctypes.create_string_buffer(120))
    if ring < 0:
        return ctypes.get_errno()
    os.close(ring)
    return 0


def _try(engine: Engine) -> None:
    with tempfile.NamedTemporaryFile(prefix="penny-cache-") as temporary:
        file = engine.open(Path(temporary.name), os.O_RDWR)
        try:
            block = mmap.mmap(-1, ALIGNMENT)
            block[:] = pattern = os.urandom(ALIGNMENT)
            engine.write(Transfer(file, 0, [memoryview(block)])).result(timeout=10)
            block[:] = bytes(ALIGNMENT)
            engine.read(Transfer(file, 0, [memoryview(block)])).result(timeout=10)
            if block[:] != pattern:
                raise OSError(errno.EIO, "other bytes were read than were written")
        finally:
            engine.close(file)
