"""The machine that penny-bench runs on."""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Machine:
    """What is worth knowing of it; neither its name nor its user.

    Attributes:
        cpu: model name, None where the system does not tell.
        cores: logical cores of the machine.
        usable_cores: those that this process may run on.
        memory_bytes: main memory, None where the system does not tell.
        system: kernel, its release, and architecture.
    """

    cpu: str | None
    cores: int | None
    usable_cores: int
    memory_bytes: int | None
    system: str


def machine() -> Machine:
    """This machine."""
    return Machine(
        cpu=cpu_name(_read("/proc/cpuinfo")),
        cores=os.cpu_count(),
        usable_cores=len(os.sched_getaffinity(0)),
        memory_bytes=memory(_read("/proc/meminfo")),
        system=f"{platform.system()} {platform.release()} {platform.machine()}",
    )


def cpu_name(cpuinfo: str) -> str | None:
    """The first `model name` of a /proc/cpuinfo."""
    return _field(cpuinfo, "model name")


def memory(meminfo: str) -> int | None:
    """`MemTotal` of a /proc/meminfo, which counts in KiB, in bytes."""
    total = _field(meminfo, "MemTotal")
    return int(total.split()[0]) * 1024 if total else None


def _field(lines: str, name: str) -> str | None:
    for line in lines.splitlines():
        key, _, value = line.partition(":")
        if key.strip() == name:
            return value.strip()
    return None


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:  # another system
        return ""
