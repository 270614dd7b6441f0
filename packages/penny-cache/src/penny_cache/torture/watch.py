"""What a store gives up, noticed from outside before it happens."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from penny_cache.engine import Engine, Range, Transfer, Transferred
from penny_cache.engine.wrapped import WrappedEngine
from penny_cache.store import Store
from penny_cache.torture.ledger import Event
from penny_cache.torture.pages import MARK, STATE, Forest


class WatchEngine(WrappedEngine):
    """Tells which bundles are out of a store's index, each time before a file loses anything.

    A store forgets what it gives up before it touches a file, and a bundle is only given up when its segment was
    sealed, which cuts a file to its length. So every bundle that can be given up has been seen.

    Args:
        inner: does the work.
        tell: told of each event; see `ledger.Event`.
        step: told the name of each change before it is made and again afterwards.
    """

    def __init__(
        self, inner: Engine, tell: Callable[[Event], None], step: Callable[[str], None] | None = None
    ) -> None:
        super().__init__(inner)
        self._tell, self._step = tell, step or (lambda name: None)
        self._seen: dict[int, tuple[int, bool]] = {}
        self._store: Store | None = None
        self._pages: dict[bytes, int] = {}
        self._turn = threading.Lock()
        self.given_up = 0

    def watch(self, store: Store, forest: Forest, pages: int) -> None:
        """Look at this store from now on; its pages are below `pages`."""
        self._pages = {bytes(forest.key(page)): page for page in range(pages)}
        self._seen = self._survey(store)
        self._store = store

    def look(self) -> None:
        """Tell what is gone since the last look."""
        if self._store is None:
            return
        # Two threads may give up space at once; no change is made while the index is held, so this waits for nobody.
        with self._turn:
            now = self._survey(self._store)
            for page, (version, state) in self._seen.items():
                version_now, state_now = now.get(page, (0, False))
                if version_now < version:
                    self.given_up += 1
                    self._tell(("gone", page, version))
                elif version_now == version and state and not state_now:
                    self.given_up += 1
                    self._tell(("stripped", page, version))
                elif version_now > version and state:
                    # It may have lost its snapshots before it was replaced, which nobody can see any more.
                    self._tell(("stripped", page, version))
            self._seen = now

    def _survey(self, store: Store) -> dict[int, tuple[int, bool]]:
        survey = store.survey()
        found: dict[int, tuple[int, bool]] = {}
        for row in survey.rows:
            layout = dict(survey.layouts[int(row["layout"])])
            found[self._pages[row["key"].tobytes()]] = (layout[MARK], STATE in layout)
        return found

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        """See `Engine.open`."""
        if flags & os.O_ACCMODE == os.O_WRONLY:
            self.look()  # parts are about to be marked as given up
        with self._around("open"):
            return super().open(path, flags, mode)

    def reserve(self, file: int, size: int) -> bool:
        """See `Engine.reserve`."""
        with self._around("reserve"):
            return super().reserve(file, size)

    def write(self, transfer: Transfer) -> Transferred:
        """See `Engine.write`."""
        with self._around("write"):
            return super().write(transfer)

    def sync(self, file: int) -> None:
        """See `Engine.sync`."""
        with self._around("sync"):
            super().sync(file)

    def write_file(self, path: Path, data: bytes) -> None:
        """See `Engine.write_file`."""
        self.look()
        with self._around("write_file"):
            super().write_file(path, data)

    def rename(self, source: Path, target: Path) -> None:
        """See `Engine.rename`."""
        self.look()
        with self._around("rename"):
            super().rename(source, target)

    def unlink(self, path: Path) -> None:
        """See `Engine.unlink`."""
        self.look()
        with self._around("unlink"):
            super().unlink(path)

    def truncate(self, path: Path, size: int) -> None:
        """See `Engine.truncate`."""
        self.look()
        with self._around("truncate"):
            super().truncate(path, size)

    def punch(self, path: Path, ranges: Sequence[Range]) -> bool:
        """See `Engine.punch`."""
        self.look()
        with self._around("punch"):
            return super().punch(path, ranges)

    def sync_directory(self, path: Path) -> None:
        """See `Engine.sync_directory`."""
        with self._around("sync_directory"):
            super().sync_directory(path)

    @contextmanager
    def _around(self, name: str) -> Iterator[None]:
        self._step(name)
        yield
        self._step(name)
