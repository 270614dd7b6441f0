"""Hashes of large files, remembered between runs. Off unless asked for: a file that kept its times is believed."""

from __future__ import annotations

import json
import os
import secrets
from contextlib import suppress
from pathlib import Path


class HashCache:
    """sha256 by a file's real path, device, inode, size, mtime and ctime, in one JSON file that is replaced whole.

    Whatever is wrong with that file, the cache is empty; what keeps it from being written costs the hash once more.

    Args:
        path: of the JSON file (mode 0600); its directory must be there.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._path = Path(path)
        self._known: dict[str, str] = {}
        with suppress(OSError, ValueError):
            read = json.loads(self._path.read_bytes())
            if isinstance(read, dict):
                self._known = {k: v for k, v in read.items() if isinstance(v, str) and len(v) == 64}

    def get(self, file: Path, found: os.stat_result) -> str | None:
        """The hash of a file that is as it was then; None if there is none."""
        return self._known.get(_key(file, found))

    def put(self, file: Path, found: os.stat_result, sha256: str) -> None:
        """Remember a hash, and forget those of earlier contents of that file."""
        real = f"{os.path.realpath(file)}\0"
        self._known = {k: v for k, v in self._known.items() if not k.startswith(real)}
        self._known[_key(file, found)] = sha256
        temporary = self._path.with_name(f".{self._path.name}-{secrets.token_hex(4)}")
        with suppress(OSError):
            opened = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
            with os.fdopen(opened, "w") as stream:
                json.dump(self._known, stream)
            os.replace(temporary, self._path)


def _key(file: Path, found: os.stat_result) -> str:
    numbers = (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)
    return "\0".join((os.path.realpath(file), *map(str, numbers)))
