"""What lies in a root: its namespaces, when each was used last, what it takes, and who uses it now."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from penny_cache.namespace import lease, manifest
from penny_cache.namespace.directory import REMOVED, UNFINISHED
from penny_cache.namespace.errors import ManifestDamaged, NamespaceError, NamespaceMissing

_OURS = re.compile(
    rf"{re.escape(manifest.FILE_NAME)}|writer\.lock|snapshot(\.unfinished)?|\d{{8}}\.(segment|index|unfinished)"
)
_FIRST_LINE = b"penny-cache namespace 1\n"

Kind = Literal["namespace", "damaged", "unfinished", "removed"]


@dataclass(frozen=True)
class Usage:
    """One directory of a root that penny-cache made.

    Attributes:
        directory: its name in the root.
        kind: a namespace; one whose manifest is damaged; one that was never finished; one that is half removed.
        name: of the identity; empty for the last three kinds.
        used: when something in it was written last, or its writer opened it, in seconds since 1970: the newest time of
            the directory and its files. Reading leaves no trace.
        size: bytes on the drive, holes left out.
        user: who has it open now, as the end of a sentence; empty if nobody does.
        foreign: something in it that penny-cache did not make; empty if there is nothing. Such a directory stays.
    """

    directory: str
    kind: Kind
    name: str
    used: float
    size: int
    user: str = ""
    foreign: str = ""


def usage(root: str | os.PathLike[str]) -> list[Usage]:
    """What penny-cache made under `root`, sorted by directory name. Links, and directories of others, are left out.

    Raises:
        NamespaceMissing: `root` is no directory.
        NamespaceError: it is a symbolic link, belongs to another user, or cannot be read.
    """
    with opened_root(root) as top:
        names = sorted(entry.name for entry in os.scandir(top) if entry.is_dir(follow_symlinks=False))
        found: list[Usage] = []
        for name in names:
            with suppress(FileNotFoundError):  # another collector was quicker
                found += usage_of(top, name)
    return found


def usage_of(top: int, name: str, look_for_users: bool = True) -> list[Usage]:
    """The directory `name` in the root whose descriptor is `top`; nothing if it is not ours. Raises OSError."""
    with opened(top, name) as directory:
        kind, identity = _kind(directory, name)
        if kind is None:
            return []
        entries = [(e.name, e.stat(follow_symlinks=False)) for e in os.scandir(directory)]
        others = [entry for entry, found in entries if not _ours(entry, found)]
        own = os.fstat(directory)
        return [
            Usage(
                name, kind, identity, max(found.st_mtime for found in (own, *(f for _, f in entries))),
                sum(found.st_blocks * 512 for _, found in entries),
                lease.user(directory) if look_for_users else "", min(others, default=""),
            )
        ]  # fmt: skip


@contextmanager
def opened_root(root: str | os.PathLike[str]) -> Iterator[int]:
    """A descriptor of a root. Raises what `usage` does, also for what the body of the `with` meets."""
    root = Path(root)
    try:
        found = root.lstat()
        if stat.S_ISLNK(found.st_mode):
            raise NamespaceError(f"{root} is a symbolic link; give the directory itself.")
        if not stat.S_ISDIR(found.st_mode):
            raise NamespaceMissing(f"{root} is not a directory; pass the root of a store.")
        if found.st_uid != os.geteuid():
            raise NamespaceError(
                f"{root} belongs to the user {found.st_uid}; its namespaces are theirs to collect."
            )
        with opened(None, root) as top:
            yield top
    except FileNotFoundError as error:
        raise NamespaceMissing(f"There is no directory {root}.") from error
    except OSError as error:
        raise NamespaceError(
            f"The store {root} cannot be read: {error.strerror} ({error.filename})."
        ) from error


@contextmanager
def opened(top: int | None, name: str | os.PathLike[str]) -> Iterator[int]:
    """A descriptor of a directory that is no link. Raises OSError."""
    file = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=top)
    try:
        yield file
    finally:
        os.close(file)


def _kind(directory: int, name: str) -> tuple[Kind | None, str]:
    if name.startswith(UNFINISHED):
        return "unfinished", ""
    if name.startswith(REMOVED):
        return "removed", ""
    try:
        flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
        file = os.open(manifest.FILE_NAME, flags, dir_fd=directory)
    except OSError:
        return None, ""
    with os.fdopen(file, "rb") as stream:
        data = stream.read(manifest.MAX_MANIFEST_BYTES)
    try:
        return "namespace", manifest.decode(data, Path(name)).name
    except ManifestDamaged:
        # Of another version, or of another program: not for this one to judge.
        return ("damaged" if data.startswith(_FIRST_LINE) else None), ""


def _ours(name: str, found: os.stat_result) -> bool:
    return bool(_OURS.fullmatch(name)) and stat.S_ISREG(found.st_mode)
