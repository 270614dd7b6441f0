"""Namespace directories: made whole or not at all, and checked before anything in them is read.

A namespace is built under a temporary name, its manifest and directory are synced, and only then does one
rename give it its name. So a directory with a final name always holds a whole manifest, whenever the machine
stops.
"""

from __future__ import annotations

import errno
import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from penny_cache.durable import sync_directory
from penny_cache.namespace import manifest
from penny_cache.namespace.difference import diff
from penny_cache.namespace.errors import (
    ManifestDamaged,
    NamespaceError,
    NamespaceExists,
    NamespaceMismatch,
    NamespaceMissing,
)
from penny_cache.namespace.identity import Identity

UNFINISHED = ".unfinished-"
"""Prefix of a directory under construction; never opened, and safe to remove when no server is starting."""
REMOVED = ".removed-"
"""Prefix of a namespace that is being removed, or whose remover died; never opened."""


@dataclass(frozen=True)
class Namespace:
    """A namespace on disk whose manifest was read and found whole.

    Attributes:
        path: its directory.
        identity: what its manifest says.
    """

    path: Path
    identity: Identity


def create(root: str | os.PathLike[str], identity: Identity) -> Namespace:
    """Make the namespace of `identity` under `root`, exclusively and durably.

    Of several callers at once, in any processes, one succeeds. When the call returns, manifest and directory
    entries are synced. `root` itself is made (mode 0700) if only it is missing.

    Raises:
        NamespaceExists: the namespace is there already, from now or from long ago.
        NamespaceError: the file system refused (the message names path and reason). Nothing was made, except
            when the very last sync failed: then the namespace exists, whole, and `ensure` will sync it again.
    """
    root = Path(root)
    final = root / identity.directory_name
    temporary = root / f"{UNFINISHED}{secrets.token_hex(8)}"
    _make_root(root)
    with _explained(f"make the namespace {final}"):
        temporary.mkdir(mode=0o700)
        try:
            _write_new(temporary / manifest.FILE_NAME, manifest.encode(identity))
            sync_directory(temporary)
            try:
                # Replaces nothing but an empty directory, which is no namespace.
                os.rename(temporary, final)
            except OSError as error:
                if error.errno in (errno.EEXIST, errno.ENOTEMPTY, errno.ENOTDIR):
                    raise NamespaceExists(
                        f"The namespace {final} exists already; open it, or use ensure, which does either."
                    ) from error
                raise
        except BaseException:
            _remove_unfinished(temporary)
            raise
        sync_directory(root)
    return Namespace(final, identity)


def open(root: str | os.PathLike[str], identity: Identity) -> Namespace:
    """Open the namespace of `identity` under `root` after comparing its whole manifest.

    Raises:
        NamespaceMissing: there is none; names the nearest one of the same name and how it differs.
        NamespaceMismatch: the directory holds another identity; names the fields and both values.
        ManifestDamaged: the manifest is torn, changed, of another version or not a plain file.
        NamespaceError: the file system refused.
    """
    root = Path(root)
    path = root / identity.directory_name
    try:
        namespace = read(path)
    except NamespaceMissing as error:
        raise NamespaceMissing(f"{error}{_nearest(root, identity)}") from error
    if differences := diff(namespace.identity, identity):
        raise NamespaceMismatch(path, differences)
    return namespace


def ensure(root: str | os.PathLike[str], identity: Identity) -> Namespace:
    """Create the namespace, or open it if it exists. Raises what those two do, less `NamespaceExists`."""
    try:
        return create(root, identity)
    except NamespaceExists:
        # The winner may not have come to its last sync yet, and what we store must not depend on it.
        with _explained(f"sync the store {root}"):
            sync_directory(Path(root))
        return open(root, identity)


def read(path: str | os.PathLike[str]) -> Namespace:
    """Read the namespace in one directory, whatever its identity. Symbolic links are not followed.

    Raises:
        NamespaceMissing: no such directory.
        ManifestDamaged: no manifest, or a damaged one.
        NamespaceError: the file system refused, or the directory was never finished or half removed.
    """
    path = Path(path)
    if path.name.startswith(UNFINISHED):
        raise NamespaceError(f"{path} was never finished: its creator died. Remove it.")
    if path.name.startswith(REMOVED):
        raise NamespaceError(f"{path} is being removed, or was not removed to its end; collect it again.")
    file = path / manifest.FILE_NAME
    with _explained(f"read the namespace {path}"):
        try:
            directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except FileNotFoundError as error:
            raise NamespaceMissing(f"There is no namespace {path}.") from error
        try:
            flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC
            stream = os.open(manifest.FILE_NAME, flags, dir_fd=directory)
            try:
                data = os.read(stream, manifest.MAX_MANIFEST_BYTES)
            finally:
                os.close(stream)
        except FileNotFoundError as error:
            raise ManifestDamaged(f"{path} has no {manifest.FILE_NAME}; it is not a namespace.") from error
        finally:
            os.close(directory)
    return Namespace(path, manifest.decode(data, file))


def find(root: str | os.PathLike[str]) -> tuple[list[Namespace], list[NamespaceError]]:
    """All namespaces under `root`, sorted by directory name, and what is wrong with its other directories.

    Raises:
        NamespaceMissing: `root` does not exist or is not a directory.
        NamespaceError: the file system refused.
    """
    root = Path(root)
    if not root.is_dir():
        raise NamespaceMissing(f"{root} is not a directory; pass the root of a store.")
    with _explained(f"list the store {root}"):
        names = sorted(entry.name for entry in os.scandir(root) if entry.is_dir(follow_symlinks=False))
    found: list[Namespace] = []
    wrong: list[NamespaceError] = []
    for name in names:
        if name.startswith((UNFINISHED, REMOVED)):
            continue
        try:
            found.append(read(root / name))
        except NamespaceError as error:
            wrong.append(error)
    return found, wrong


def _nearest(root: Path, identity: Identity) -> str:
    if not root.is_dir():
        return ""
    relatives = [n for n in find(root)[0] if n.identity.name == identity.name]
    if not relatives:
        return ""
    nearest = min(relatives, key=lambda n: len(diff(n.identity, identity)))
    listed = "; ".join(d.sentence("there", "here") for d in diff(nearest.identity, identity))
    return f" The nearest one of that name is {nearest.path.name}: {listed}."


def _make_root(root: Path) -> None:
    with _explained(f"make the store {root}"):
        try:
            root.mkdir(mode=0o700)
        except FileExistsError:
            return
        sync_directory(root.parent)


def _write_new(path: Path, data: bytes) -> None:
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(file, "wb") as stream:
        stream.write(data)
        stream.flush()
        os.fsync(stream.fileno())


def _remove_unfinished(temporary: Path) -> None:
    # What cannot be removed is harmless, and the error that led here is the one to report.
    with suppress(OSError):
        (temporary / manifest.FILE_NAME).unlink(missing_ok=True)
        temporary.rmdir()


@contextmanager
def _explained(action: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise NamespaceError(
            f"Could not {action}: {error.strerror or error} ({error.filename or 'sync'})."
        ) from error
