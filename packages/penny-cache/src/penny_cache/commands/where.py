"""Which store a path means."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from penny_cache import namespace
from penny_cache.engine import ThreadEngine
from penny_cache.namespace import Namespace
from penny_cache.store import Settings, Store, StoreError, open_store
from penny_cache.store.files import check_directory

StorePath = Annotated[
    Path,
    typer.Argument(
        metavar="STORE", help="A namespace directory, or a root that holds one.", show_default=False
    ),
]


def namespace_at(path: Path) -> Namespace:
    """The namespace in a directory, or the only one in a root.

    Raises:
        StoreError: no directory, a symbolic link, or one of another user; a root with no namespace or several.
        NamespaceError: the namespace is damaged, or of another version.
    """
    check_directory(path)
    if (path / namespace.MANIFEST_NAME).exists():
        return namespace.read(path)
    found, wrong = namespace.find(path)
    if len(found) == 1:
        check_directory(found[0].path)
        return found[0]
    if found:
        names = ", ".join(one.path.name for one in found[:5]) + (", …" if len(found) > 5 else "")
        raise StoreError(f"{path} holds {len(found)} namespaces; give the directory of one: {names}.")
    damaged = [error for error in wrong if "is not a namespace" not in str(error)]
    if damaged:
        raise damaged[0]
    raise StoreError(f"{path} is not a store: there is no namespace of penny-cache in it.")


def opened(here: Namespace, writable: bool, settings: Settings | None = None) -> Store:
    """The store of a namespace, with threads: a command for people needs no more, and no line about what is missing."""
    return open_store(here, writable=writable, settings=settings, engine=ThreadEngine())


@contextmanager
def reading(path: Path, settings: Settings | None = None) -> Iterator[tuple[Store, Namespace]]:
    """The store that a path means, open for reading. Raises what `namespace_at` does."""
    here = namespace_at(path)
    with opened(here, False, settings) as store:
        yield store, here


@contextmanager
def writing(path: Path, settings: Settings | None = None) -> Iterator[tuple[Store, Namespace]]:
    """As `reading`, open for writing. Raises StoreLocked besides, if another process writes to it."""
    here = namespace_at(path)
    with opened(here, True, settings) as store:
        yield store, here
