"""What every engine does."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Transfer:
    """Bytes between memory and a file.

    Attributes:
        file: a descriptor of `Engine.open`.
        offset: first byte in the file, a multiple of 4,096.
        views: memory, one after another; each starts at a multiple of 4,096 and is one long.
    """

    file: int
    offset: int
    views: Sequence[memoryview]

    @property
    def size(self) -> int:
        """Bytes of all views."""
        return sum(view.nbytes for view in self.views)


Transferred = Future[None]
"""Done when all bytes are; OSError of the call that failed, or EIO for a file that is too short."""


Range = tuple[int, int]
"""First byte and bytes in a file."""


class Engine(Protocol):
    """Opens files, moves bytes, and makes every other change to a store's files.

    All that a store does to its directory goes through its engine, so that one that fails, forgets or records stands in
    for the drive. Every method may be called from any thread; all but `read` and `write` raise OSError.
    """

    @property
    def name(self) -> str:
        """A word for metrics and tables."""

    def open(self, path: Path, flags: int, mode: int = 0o600) -> int:
        """A descriptor for `path` with the flags of `os.open`, O_DIRECT besides if this file system has it."""

    def close(self, file: int) -> None:
        """Close a descriptor whose transfers are done."""

    def reserve(self, file: int, size: int) -> bool:
        """Give a new file its length and its blocks, which read as zeros; False, and no change, where that cannot be.

        For file systems that lengthen files one write at a time; others may refuse, for nothing but speed hangs on it.
        """

    def read(self, transfer: Transfer) -> Transferred:
        """Start to fill the views from the file."""

    def write(self, transfer: Transfer) -> Transferred:
        """Start to write the views to the file."""

    def sync(self, file: int) -> None:
        """Return when what was written to the file, before this call, would survive a power cut."""

    def write_file(self, path: Path, data: bytes) -> None:
        """Make a file of these bytes, in place of one of that name, and sync it; its name is not durable yet."""

    def rename(self, source: Path, target: Path) -> None:
        """Give a file another name, in place of a file that has it."""

    def unlink(self, path: Path) -> None:
        """Remove a file; one that is missing is removed already."""

    def truncate(self, path: Path, size: int) -> None:
        """Cut a file to `size` bytes, or make it that long with a hole."""

    def punch(self, path: Path, ranges: Sequence[Range]) -> bool:
        """Make holes of whole blocks, which read as zeros; False where the file system has none."""

    def sync_directory(self, path: Path) -> None:
        """Return when the names in a directory would survive a power cut."""

    def shutdown(self) -> None:
        """Wait for what was started, and free threads and registrations."""
