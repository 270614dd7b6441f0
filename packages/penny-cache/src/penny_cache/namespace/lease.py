"""Who uses a namespace: the lock on its directory, shared by those who read, alone for who removes it.

Locks are `flock`s, so they end with the process that has them, and on a network file system they bind one machine only.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from penny_cache.namespace.errors import NamespaceError

WRITER_LOCK = "writer.lock"
"""The file that the one writer of the store in a namespace has locked."""


@contextmanager
def hold(path: str | os.PathLike[str]) -> Iterator[None]:
    """Keep a namespace from being collected while something in it is read.

    Raises:
        NamespaceError: it was removed meanwhile, or cannot be opened.
    """
    path = Path(path)
    try:
        directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError as error:
        raise NamespaceError(f"The namespace {path} cannot be opened: {error.strerror}.") from error
    try:
        fcntl.flock(directory, fcntl.LOCK_SH)  # waits for a removal, or for a look at who uses it
        if not _same(directory, path):
            raise NamespaceError(f"The namespace {path} was removed just now.")
        yield
    finally:
        os.close(directory)


def _same(directory: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(directory), path.lstat())
    except FileNotFoundError:
        return False


def locked(file: int, kind: int) -> bool:
    """Try to lock an open file or directory; False if others' locks forbid it. Ends when `file` is closed."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def alone(directory: int) -> Iterator[str]:
    """Hold the writer's lock and the directory's, for as long as nobody else may use it.

    Args:
        directory: descriptor of a namespace's directory.

    Yields:
        Why that is not possible: who uses it; empty if it is.

    Raises:
        OSError: the file system refused.
    """
    flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
    writer = os.open(WRITER_LOCK, flags, 0o600, dir_fd=directory)
    try:
        if not locked(writer, fcntl.LOCK_EX):
            owner = os.pread(writer, 20, 0).decode("ascii", "replace").strip() or "unknown"
            yield f"the process {owner} writes to it"
        elif not locked(directory, fcntl.LOCK_EX):
            yield "it is being read"
        else:
            yield ""
    finally:
        os.close(writer)
        # The caller's descriptor stays open, its lock must not.
        fcntl.flock(directory, fcntl.LOCK_UN)


def user(directory: int) -> str:
    """Who uses a namespace now, as `alone` says it; empty if nobody does. Changes nothing. Raises OSError."""
    with suppress(FileNotFoundError):
        writer = os.open(WRITER_LOCK, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=directory)
        try:
            if not locked(writer, fcntl.LOCK_SH):
                owner = os.pread(writer, 20, 0).decode("ascii", "replace").strip() or "unknown"
                return f"the process {owner} writes to it"
        finally:
            os.close(writer)
    if not locked(directory, fcntl.LOCK_EX):
        return "it is being read"
    fcntl.flock(directory, fcntl.LOCK_UN)
    return ""
