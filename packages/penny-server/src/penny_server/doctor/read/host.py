"""Memory, limits and the kernel of this host."""

from __future__ import annotations

import os
import re
import resource
import sys
import time
from collections.abc import Iterable
from pathlib import Path

import psutil

from penny_server.doctor.facts import Host, Node
from penny_server.doctor.read import groups, kernel


def read_host(root: Path = Path("/")) -> Host:
    """The facts; ``root`` is where /proc and /sys are."""
    memory, swap = psutil.virtual_memory(), psutil.swap_memory()
    limit, used = groups.memory(root)
    threads_limit, threads = _threads(root)
    pages = root / "sys/kernel/mm/transparent_hugepage"
    return Host(
        memory=memory.total,
        available=memory.available,
        swap=swap.total,
        swap_used=swap.used,
        group_limit=limit if limit is not None and limit < memory.total else None,
        group_used=used,
        cpus=frozenset(os.sched_getaffinity(0)),
        cpu_quota=groups.cpu_quota(root),
        cpu_flags=_cpu_flags(root),
        memlock=_limit(resource.RLIMIT_MEMLOCK, soft=True),
        files=_limit(resource.RLIMIT_NOFILE, soft=False),
        threads_limit=threads_limit,
        threads=threads,
        shm=_shm(root / "dev/shm"),
        huge_pages=_chosen(pages / "enabled"),
        huge_pages_defrag=_chosen(pages / "defrag"),
        nodes=dict(_nodes(root)),
        balancing=kernel.text(root / "proc/sys/kernel/numa_balancing") not in ("", "0"),
        io_uring=kernel.io_uring_error(),
        clock_source=kernel.text(root / "sys/devices/system/clocksource/clocksource0/current_clocksource"),
        now=time.time(),
        newest=_newest(),
    )


def _limit(which: int, soft: bool) -> int | None:
    limits = resource.getrlimit(which)
    found = limits[0] if soft else limits[1]
    return None if found == resource.RLIM_INFINITY else found


def _threads(root: Path) -> tuple[int | None, int]:
    """The lowest limit on threads, and how many of it are used: by the control group, or by this user."""
    group, used = groups.threads(root)
    user = None if os.geteuid() == 0 else _limit(resource.RLIMIT_NPROC, soft=True)
    if user is None or (group is not None and group - used <= user):
        return group, used
    mine = 0
    for process in psutil.process_iter(["uids", "num_threads"]):
        uids = process.info["uids"]
        mine += process.info["num_threads"] or 0 if uids and uids.real == os.getuid() else 0
    return user, mine


def _shm(folder: Path) -> int | None:
    if not os.access(folder, os.W_OK):
        return None
    state = os.statvfs(folder)
    return state.f_bavail * state.f_frsize


def _cpu_flags(root: Path) -> frozenset[str]:
    match = re.search(r"^flags\s*:(.*)$", kernel.text(root / "proc/cpuinfo"), re.MULTILINE)
    return frozenset(match[1].split()) if match else frozenset()


def _chosen(file: Path) -> str:
    match = re.search(r"\[([^\]]+)\]", kernel.text(file))
    return match[1] if match else ""


def _nodes(root: Path) -> Iterable[tuple[int, Node]]:
    for folder in sorted((root / "sys/devices/system/node").glob("node[0-9]*")):
        size = re.search(r"MemTotal:\s*(\d+) kB", kernel.text(folder / "meminfo"))
        cpus = frozenset(cpu_list(kernel.text(folder / "cpulist")))
        yield int(folder.name.removeprefix("node")), Node(cpus, int(size[1]) * 1024 if size else 0)


def cpu_list(text: str) -> Iterable[int]:
    """The processors that a kernel list such as ``0-3,8`` names."""
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _newest() -> float:
    """When the latest of the installed packages' folders was written."""
    return max((Path(place).stat().st_mtime for place in sys.path if Path(place).is_dir()), default=0.0)
