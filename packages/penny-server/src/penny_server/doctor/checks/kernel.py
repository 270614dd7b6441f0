"""What the kernel and a container's rules let through, and its clock."""

from __future__ import annotations

import time
from collections.abc import Iterable

from penny_server.doctor.base import Case, Check, Finding, fail, ok, warn

WHY = {
    "EPERM": ("a seccomp profile or kernel.io_uring_disabled forbids it",
              "Start the container with --security-opt seccomp=unconfined, or set kernel.io_uring_disabled to 0."),
    "EACCES": ("kernel.io_uring_disabled forbids it", "Set kernel.io_uring_disabled to 0."),
    "ENOSYS": ("this kernel or sandbox has none", "Use Linux 5.10 or newer, and no sandbox that hides it."),
    "ENOMEM": ("locked memory is short", "Raise the limit: ulimit -l unlimited"),
}  # fmt: skip
SLOW_CLOCKS = ("hpet", "acpi_pm", "jiffies", "refined-jiffies")
SLACK = 86_400.0
"""Seconds that a clock may be behind the newest file: time zones and copies."""


def _io_uring(case: Case) -> Iterable[Finding]:
    error = case.facts.host.io_uring
    if not error:
        yield ok("io_uring may be used.")
        return
    why, fix = WHY.get(error, ("the kernel refuses it", "Look into the kernel's log."))
    wanted = bool(case.option("store_dir")) or case.option("ple_backend") == "nvme"
    say = fail if wanted else warn
    yield say(
        f"io_uring answers {error}: {why}; the cache store and NVMe tables read through it.",
        fix,
    )


def _huge_pages(case: Case) -> Iterable[Finding]:
    host = case.facts.host
    if host.huge_pages == "always" and host.huge_pages_defrag == "always":
        yield warn(
            "Transparent huge pages are always made at once, which stalls processes while memory is compacted.",
            "echo madvise > /sys/kernel/mm/transparent_hugepage/defrag",
        )
    elif host.huge_pages:
        yield ok(f"Transparent huge pages: {host.huge_pages}, defragmentation {host.huge_pages_defrag}.")
    else:
        yield ok("No transparent huge pages.")


def _clock(case: Case) -> Iterable[Finding]:
    host = case.facts.host
    date = time.strftime("%Y-%m-%d %H:%M", time.gmtime(host.now))
    if host.now < host.newest - SLACK:
        yield warn(
            f"The clock says {date} UTC, before the installed files were written: compiled kernels look stale and "
            "certificates are refused.",
            "Set the clock, for example: timedatectl set-ntp true",
        )
    elif host.clock_source in SLOW_CLOCKS:
        yield warn(
            f"The kernel's clock is {host.clock_source}, of which each reading costs about a microsecond.",
            "Choose tsc if /sys/devices/system/clocksource/clocksource0/available_clocksource has it.",
        )
    else:
        yield ok(f"The clock says {date} UTC ({host.clock_source or 'source not known'}).")


CHECKS = (
    Check("kernel.io_uring", "io_uring may be used (a ring is made and closed)", _io_uring),
    Check("kernel.huge_pages", "transparent huge pages do not stall processes", _huge_pages),
    Check("kernel.clock", "the date is sane and the clock is a fast one", _clock),
)
