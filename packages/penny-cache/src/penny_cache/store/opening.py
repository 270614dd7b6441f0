"""Opening a store, and letting go of all of them in a child process."""

from __future__ import annotations

import os
import weakref

from penny_cache.engine import Engine
from penny_cache.engine.choose import default_engine
from penny_cache.namespace import Namespace, NamespaceError
from penny_cache.store import files
from penny_cache.store.errors import StoreError
from penny_cache.store.settings import Settings
from penny_cache.store.store import Store

_open_stores: weakref.WeakSet[Store] = weakref.WeakSet()


def _forked() -> None:
    for store in list(_open_stores):
        store.forked()


# A child would keep the locks of its parent's stores for as long as it lives.
os.register_at_fork(after_in_child=_forked)


def open_store(
    namespace: Namespace,
    *,
    writable: bool = True,
    settings: Settings | None = None,
    engine: Engine | None = None,
) -> Store:
    """Open the store in a namespace's directory; an empty directory is an empty store.

    Args:
        namespace: from `penny_cache.namespace.ensure` or `open`.
        writable: whether to become its writer, of which a store has one; any number of processes may read.
        settings: memory and sizes.
        engine: of the store's own from then on; `default_engine` if none is given.

    Raises:
        StoreLocked: another process writes to it.
        StoreVersion: it is of another version of the format.
        StoreError: the directory is not usable.
    """
    files.check_directory(namespace.path)
    engine = engine or default_engine(directory=namespace.path)
    try:
        store = Store(namespace, engine, settings or Settings(), writable)
    except NamespaceError as error:
        raise StoreError(str(error)) from error
    _open_stores.add(store)
    return store
