"""Another process: `python -m penny_cache.torture.neighbour`.

`hold PATH` is the writer of a store until it is killed; `read PATH USER` opens a store as another user, and prints what
it was told and how many bundles it finds.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from penny_cache import namespace
from penny_cache.engine import ThreadEngine
from penny_cache.store import StoreError, open_store
from penny_cache.torture.scene import SETTINGS


def _hold(path: Path) -> None:
    with open_store(namespace.read(path), settings=SETTINGS, engine=ThreadEngine(1)):
        print("open", flush=True)
        time.sleep(600)


def _read(path: Path, user: int) -> None:
    if os.geteuid() != user:
        os.setuid(user)
    try:
        open_store(namespace.read(path), settings=SETTINGS, engine=ThreadEngine(1)).close()
        print("opened")
    except StoreError as error:
        print(error)
    with open_store(namespace.read(path), writable=False, settings=SETTINGS, engine=ThreadEngine(1)) as store:
        print(len(store))


if __name__ == "__main__":
    if sys.argv[1] == "hold":
        _hold(Path(sys.argv[2]))
    else:
        _read(Path(sys.argv[2]), int(sys.argv[3]))
