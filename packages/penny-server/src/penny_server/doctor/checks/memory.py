"""Host memory against the plan."""

from __future__ import annotations

from collections.abc import Iterable

from penny_server.doctor.base import GIB, Case, Check, Finding, fail, gib, ok, warn
from penny_server.doctor.prepare import free_memory

PROCESSES = 6 * GIB
"""Three Python processes with torch and a tokenizer on a GPU; assumed, beside what the plan counts."""
PROCESSES_CPU = 2 * GIB
SHM_PLENTY = 1 * GIB
SHM_NCCL = 256 << 20
SWAPPED = 0.1


def needed(case: Case) -> tuple[int, int, str]:
    """Host bytes without which the server does not start, those it takes beside, and what they are."""
    plan = case.plan
    if plan is None:
        return 0, PROCESSES if case.cuda else PROCESSES_CPU, "its processes"
    host = plan.host
    if not case.cuda:
        return (
            sum(line.bytes for line in plan.lines) + host.ram,
            PROCESSES_CPU,
            "weights, pools and processes",
        )
    parts = [
        f"{gib(size)} for {what}"
        for size, what in (
            (host.tables, "PLE tables"),
            (host.tier, "HiCache"),
            (host.reserve, "SGLang's reserve"),
        )
        if size
    ]
    return host.ram + host.reserve, PROCESSES, ", ".join([*parts, f"{gib(PROCESSES)} for its processes"])


def _advice(case: Case) -> str:
    plan, free = case.plan, free_memory(case.facts)
    ways = []
    if plan is not None and plan.host.tier and case.setting("hicache_size"):
        room = int((free - plan.host.tables - plan.host.reserve - PROCESSES) / 10**9)
        if room >= 1:
            ways.append(f"start with --set hicache_size={room}")
    if plan is not None and plan.host.tier:
        ways.append(
            "start without the host tier: --set enable_hierarchical_cache=false and no hicache_ settings"
        )
    if plan is not None and plan.host.tables:
        ways.append("keep the PLE tables on NVMe once that is built")
    return ", or ".join(ways)


def _memory(case: Case) -> Iterable[Finding]:
    host = case.facts.host
    must, beside, what = needed(case)
    if case.launch is None:
        yield ok(f"{gib(host.available)} of {gib(host.memory)} are available.")
        return
    advice = "; ".join(filter(None, ["End other programs", _advice(case)]))
    text = f"{gib(host.available)} of host memory are available"
    if host.available < must:
        yield fail(f"{text}, and the server takes {gib(must + beside)} ({what}).", f"{advice}.")
    elif host.available < must + beside:
        yield warn(f"{text}, which is little for {gib(must + beside)} ({what}).", f"{advice}.")
    else:
        yield ok(f"{text}; the server takes {gib(must + beside)} ({what}).")


def _group(case: Case) -> Iterable[Finding]:
    host = case.facts.host
    if host.group_limit is None:
        yield ok("No memory limit of a container or service.")
        return
    must, beside, what = needed(case)
    room = host.group_limit - host.group_used
    text = f"The container or service may use {gib(host.group_limit)}, of which {gib(room)} are left"
    if case.launch is not None and room < must + beside:
        yield fail(
            f"{text}; the server takes {gib(must + beside)} ({what}), and the kernel ends it when it goes above.",
            f"Raise the limit by {gib(must + beside - room)} or more (docker run --memory, MemoryMax of a service).",
        )
    else:
        yield ok(f"{text}.")


def _shm(case: Case) -> Iterable[Finding]:
    free = case.facts.host.shm
    if free is None:
        yield fail(
            "/dev/shm cannot be written, and the server's processes share semaphores and images there.",
            "Mount a tmpfs on /dev/shm with mode 1777.",
        )
    elif case.ranks > 1 and free < SHM_NCCL:
        yield fail(
            f"/dev/shm has {free >> 20} MiB free, and NCCL between {case.ranks} GPUs needs more.",
            "Give it 16 GiB: docker run --shm-size 16g, or --ipc=host.",
        )
    elif free < SHM_PLENTY:
        yield warn(
            f"/dev/shm has {free >> 20} MiB free; requests with images pass their pixels through it.",
            "Give it 16 GiB: docker run --shm-size 16g, or --ipc=host.",
        )
    else:
        yield ok(f"/dev/shm has {gib(free)} free.")


def _swap(case: Case) -> Iterable[Finding]:
    host = case.facts.host
    if host.swap and host.swap_used > max(SWAPPED * host.swap, GIB):
        yield warn(
            f"{gib(host.swap_used)} of {gib(host.swap)} swap are in use: memory has been short here.",
            "End other programs, then empty it: swapoff -a && swapon -a",
        )
    else:
        yield ok(f"{gib(host.swap_used)} of {gib(host.swap)} swap in use." if host.swap else "No swap.")


CHECKS = (
    Check("memory.host", "host memory for pinned tables, the host tier and the processes", _memory),
    Check("memory.container", "the memory limit of the container or service", _group),
    Check("memory.shared", "/dev/shm is there and large enough", _shm),
    Check("memory.swap", "the machine is not paging", _swap),
)
