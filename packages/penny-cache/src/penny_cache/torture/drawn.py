"""Directories on the fastest file system there is, for states of a store that are made by the thousand."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

_MEMORY = Path("/dev/shm")


@contextmanager
def scratch(near: Path) -> Iterator[Path]:
    """A new directory in memory, or in `near` where that cannot be; removed afterwards."""
    at = _MEMORY if _MEMORY.is_dir() and os.access(_MEMORY, os.W_OK) else near
    with tempfile.TemporaryDirectory(dir=at, prefix="penny-cache-") as made:
        yield Path(made)


def become(directory: Path, files: Mapping[str, bytes]) -> None:
    """Make a directory have these files and no others."""
    for path in directory.iterdir():
        path.unlink()
    for name, data in files.items():
        (directory / name).write_bytes(data)
        (directory / name).chmod(0o600)


def contents(directory: Path) -> dict[str, bytes]:
    """What `become` takes."""
    return {path.name: path.read_bytes() for path in sorted(directory.iterdir()) if path.is_file()}
