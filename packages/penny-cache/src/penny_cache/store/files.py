"""The files of a store, in the directory of its namespace, and who may write to them.

| File | What |
|---|---|
| `00000001.segment` | bundles, see `records` |
| `00000001.index` | the rows of a sealed segment, see `sidecar` |
| `snapshot` | the rows of all, see `snapshot`; there while nobody writes |
| `writer.lock` | locked by the one writer; the lock ends with its process |
"""

from __future__ import annotations

import fcntl
import os
import re
import stat
import time
from contextlib import suppress
from pathlib import Path

from penny_cache.engine import Engine
from penny_cache.store.errors import StoreError, StoreLocked

LOCK = "writer.lock"
OWNER_BYTES = 20
"""Of the process id at the start of the lock file; the number of the newest segment follows."""
SNAPSHOT = "snapshot"
Listing = dict[str, tuple[int, int, int]]
"""Inode, size and time of change in ns of files, by name."""
TRIES, PAUSE = 10, 0.02
"""Times that the lock is tried, and seconds between them."""
_SEGMENT = re.compile(r"(\d{8})\.segment")


def check_directory(path: Path) -> None:
    """Raises StoreError unless `path` is a directory of this user, and no symbolic link."""
    try:
        found = path.lstat()
    except OSError as error:
        raise StoreError(f"The store {path} cannot be opened: {error.strerror}.") from error
    if stat.S_ISLNK(found.st_mode):
        raise StoreError(f"{path} is a symbolic link; give the directory itself.")
    if not stat.S_ISDIR(found.st_mode):
        raise StoreError(f"{path} is not a directory; give the directory of a namespace.")
    if found.st_uid != os.geteuid():
        raise StoreError(
            f"{path} belongs to the user {found.st_uid} and this process runs as {os.geteuid()}; what another user "
            "can change is not read."
        )


def segment_path(directory: Path, number: int) -> Path:
    """The segment file of a number."""
    return directory / f"{number:08d}.segment"


def index_path(directory: Path, number: int) -> Path:
    """The index file beside a segment."""
    return directory / f"{number:08d}.index"


def segments(directory: Path) -> list[int]:
    """The numbers of the segment files that there are, rising."""
    with os.scandir(directory) as entries:
        matches = [_SEGMENT.fullmatch(e.name) for e in entries if e.is_file(follow_symlinks=False)]
    return sorted(int(match[1]) for match in matches if match)


def indexes(directory: Path) -> list[int]:
    """The numbers of the index files that there are, rising."""
    return sorted(int(path.stem) for path in directory.glob("*.index") if re.fullmatch(r"\d{8}", path.stem))


def unfinished(directory: Path) -> list[Path]:
    """Files that a writer was about to rename."""
    return sorted(directory.glob("*.unfinished"))


def listing(directory: Path) -> Listing:
    """Identity, size and time of change of each of a store's files, by name: what differs when the writer did anything.

    Raises:
        StoreError: the file system refused.
    """
    found: Listing = {}
    try:
        with os.scandir(directory) as entries:
            for entry in entries:
                if entry.name.endswith((".segment", ".index")) and (seen := status(entry)):
                    found[entry.name] = (seen.st_ino, seen.st_size, seen.st_mtime_ns)
    except OSError as error:
        raise StoreError(f"The store {directory} cannot be listed: {error.strerror}.") from error
    return found


def status(entry: os.DirEntry[str]) -> os.stat_result | None:
    """Of a file that was listed; None if it was removed since. Raises OSError."""
    try:
        return entry.stat(follow_symlinks=False)
    except FileNotFoundError:
        return None


def lock(directory: Path) -> int:
    """Become the writer of a store: a descriptor to keep open for as long.

    Raises:
        StoreLocked: another process is; names its id.
        StoreError: the file system refused.
    """
    path = directory / LOCK
    try:
        file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    except OSError as error:
        raise StoreError(f"{path} cannot be opened: {error.strerror}.") from error
    try:
        _locked(file)
    except BlockingIOError as error:
        owner = os.pread(file, OWNER_BYTES, 0).decode("ascii", "replace").strip() or "unknown"
        os.close(file)
        raise StoreLocked(
            f"The process {owner} writes to {directory}; a store has one writer. Open it for reading, or end that one."
        ) from error
    except OSError as error:
        os.close(file)
        raise StoreError(f"{path} cannot be locked: {error.strerror}.") from error
    with suppress(OSError):  # it is for people, and a full drive is what a writer may be here to mend
        os.pwrite(file, str(os.getpid()).encode().ljust(OWNER_BYTES), 0)
    return file


def last_segment(lock: int) -> int:
    """The highest number that a segment ever had, as far as `lock` was told; 0 if it was not."""
    text = os.pread(lock, 20, OWNER_BYTES).decode("ascii", "replace").strip()
    return int(text) if text.isdigit() else 0


def note_segment(lock: int, number: int) -> None:
    """Tell `lock` of a new segment: who has an old file of its number open must never meet a new one."""
    with suppress(OSError):  # after a restart of the machine nobody has one open
        os.pwrite(lock, str(number).encode().ljust(20), OWNER_BYTES)


def _locked(file: int) -> None:
    """Lock a file; who only looks whether it is locked holds it for a moment, so there is more than one try."""
    for _ in range(TRIES - 1):
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            time.sleep(PAUSE)
        else:
            return
    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)


def replace(path: Path, data: bytes, engine: Engine) -> None:
    """Write a file whole or not at all, and durably. Raises OSError."""
    temporary = path.with_suffix(".unfinished")
    engine.write_file(temporary, data)
    engine.rename(temporary, path)
    engine.sync_directory(path.parent)
