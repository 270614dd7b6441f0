"""Limits of the control group (of a container, service or session) that this process is in; both versions."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from penny_server.doctor.read.kernel import text

UNLIMITED = 1 << 60
"""Version 1 writes a number this large for no limit."""


def memory(root: Path) -> tuple[int | None, int]:
    """The lowest limit in bytes on the way up, and what its group uses without caches that can be dropped."""
    found: list[tuple[int, int]] = []
    for folder in _folders(root, "memory"):
        for limit, used, cache in (
            ("memory.max", "memory.current", "inactive_file"),
            ("memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"),
        ):
            size = _number(folder / limit)
            if size is not None:
                taken = (_number(folder / used) or 0) - _statistic(folder / "memory.stat", cache)
                found.append((size, max(taken, 0)))
    return min(found, default=(None, 0))


def threads(root: Path) -> tuple[int | None, int]:
    """The lowest limit on processes and threads, and how many there are."""
    found = [
        (limit, _number(folder / "pids.current") or 0)
        for folder in _folders(root, "pids")
        if (limit := _number(folder / "pids.max")) is not None
    ]
    return min(found, default=(None, 0))


def cpu_quota(root: Path) -> float | None:
    """Processors that may be used at once."""
    found = []
    for folder in _folders(root, "cpu"):
        words = text(folder / "cpu.max").split()
        if len(words) == 2 and words[0].isdigit():
            found.append(int(words[0]) / int(words[1]))
        quota, period = _number(folder / "cpu.cfs_quota_us"), _number(folder / "cpu.cfs_period_us")
        if quota and period:
            found.append(quota / period)
    return min(found, default=None)


def _folders(root: Path, controller: str) -> Iterable[Path]:
    """This process's group and those above it, and the top of the mount, which is all that a container sees."""
    base = root / "sys/fs/cgroup"
    for line in text(root / "proc/self/cgroup").splitlines():
        _, names, path = line.split(":", 2)
        if names and controller not in names.split(","):
            continue
        top = base / controller if names else base
        folder = top if ".." in path else top / path.lstrip("/")
        while folder != top:
            yield folder
            folder = folder.parent
        yield top


def _number(file: Path) -> int | None:
    word = text(file)
    return int(word) if word.isdigit() and int(word) < UNLIMITED else None


def _statistic(file: Path, name: str) -> int:
    for line in text(file).splitlines():
        key, _, value = line.partition(" ")
        if key == name and value.isdigit():
            return int(value)
    return 0
