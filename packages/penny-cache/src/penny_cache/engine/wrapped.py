"""An engine that hands everything on to another, for engines that change only some of it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from penny_cache.engine.base import Engine, Range, Transfer, Transferred


class WrappedEngine:
    """Hands every call on to `inner`; knows the path of each open descriptor."""

    def __init__(self, inner: Engine) -> None:
        self.inner = inner
        self._paths: dict[int, Path] = {}

    @property
    def name(self) -> str:
        """The inner engine's."""
        return self.inner.name

    def path(self, file: int) -> Path:
        """The path that a descriptor was opened with."""
        return self._paths[file]

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        """See `Engine.open`."""
        file = self.inner.open(path, flags, mode)
        self._paths[file] = path
        return file

    def close(self, file: int) -> None:
        """See `Engine.close`."""
        # First: the number may be another file's as soon as it is closed.
        self._paths.pop(file, None)
        self.inner.close(file)

    def reserve(self, file: int, size: int) -> bool:
        """See `Engine.reserve`."""
        return self.inner.reserve(file, size)

    def read(self, transfer: Transfer) -> Transferred:
        """See `Engine.read`."""
        return self.inner.read(transfer)

    def write(self, transfer: Transfer) -> Transferred:
        """See `Engine.write`."""
        return self.inner.write(transfer)

    def sync(self, file: int) -> None:
        """See `Engine.sync`."""
        self.inner.sync(file)

    def write_file(self, path: Path, data: bytes) -> None:
        """See `Engine.write_file`."""
        self.inner.write_file(path, data)

    def rename(self, source: Path, target: Path) -> None:
        """See `Engine.rename`."""
        self.inner.rename(source, target)

    def unlink(self, path: Path) -> None:
        """See `Engine.unlink`."""
        self.inner.unlink(path)

    def truncate(self, path: Path, size: int) -> None:
        """See `Engine.truncate`."""
        self.inner.truncate(path, size)

    def punch(self, path: Path, ranges: Sequence[Range]) -> bool:
        """See `Engine.punch`."""
        return self.inner.punch(path, ranges)

    def sync_directory(self, path: Path) -> None:
        """See `Engine.sync_directory`."""
        self.inner.sync_directory(path)

    def shutdown(self) -> None:
        """See `Engine.shutdown`."""
        self.inner.shutdown()
