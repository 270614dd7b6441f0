"""Limits of this user, container or service, and processors."""

from __future__ import annotations

from collections.abc import Iterable

from penny_server.doctor.base import MIB, Case, Check, Finding, fail, gib, ok, warn

FILES = 65_535
"""What SGLang raises the limit to; it only logs when it may not."""
FILES_LEAST = 1024
THREADS, THREADS_CPU = 2048, 512
"""Threads of processes, tokenizer, HTTP server and, on a GPU, compilers; assumed."""
LOCKED = 64 * MIB
CPUS = 4


def _memlock(case: Case) -> Iterable[Finding]:
    limit, plan = case.facts.host.memlock, case.plan
    pinned = plan.host.ram if plan and case.cuda else 0
    stored = bool(case.option("store_dir")) or case.option("ple_backend") == "nvme"
    if limit is None or (limit >= max(pinned, LOCKED * stored)):
        yield ok("Any amount of memory may be locked." if limit is None else f"{gib(limit)} may be locked.")
    elif pinned or stored:
        pins = f"{gib(pinned)} are pinned" if pinned else "the store registers buffers"
        yield warn(
            f"{limit // MIB} MiB of memory may be locked, and {pins}: CUDA pins past the limit, io_uring does not.",
            "Raise it: ulimit -l unlimited, docker run --ulimit memlock=-1, or LimitMEMLOCK=infinity of a service.",
        )
    else:
        yield ok(f"{limit // MIB} MiB may be locked; this needs none.")


def _files(case: Case) -> Iterable[Finding]:
    limit = case.facts.host.files
    if limit is not None and limit < FILES_LEAST:
        yield fail(
            f"At most {limit:,} files may be open; the server may run out of them while it starts.",
            f"Raise the hard limit: ulimit -Hn {FILES}, or docker run --ulimit nofile={FILES}",
        )
    elif limit is not None and limit < FILES:
        yield warn(
            f"At most {limit:,} files and connections may be open; SGLang wants {FILES:,} and only logs that.",
            f"Raise the hard limit: ulimit -Hn {FILES}, or docker run --ulimit nofile={FILES}",
        )
    else:
        yield ok("Any number of files may be open." if limit is None else f"{limit:,} files may be open.")


def _threads(case: Case) -> Iterable[Finding]:
    host = case.facts.host
    if host.threads_limit is None:
        yield ok("No limit on threads.")
        return
    left, wanted = host.threads_limit - host.threads, THREADS if case.cuda else THREADS_CPU
    if left < wanted:
        yield fail(
            f"{left:,} more threads may be started (limit {host.threads_limit:,}); a start takes up to {wanted:,}.",
            "Raise it: docker run --pids-limit -1, TasksMax=infinity of a service, or ulimit -u unlimited.",
        )
    else:
        yield ok(f"{left:,} more threads may be started.")


def _cpus(case: Case) -> Iterable[Finding]:
    host = case.facts.host
    usable = min(len(host.cpus), host.cpu_quota or len(host.cpus))
    if case.cuda and usable < CPUS:
        yield warn(
            f"{_processors(usable)} may be used; scheduler, tokenizer and HTTP server each want one of their own.",
            f"Give it {CPUS} or more (docker run --cpus, CPUQuota of a service, taskset).",
        )
    elif case.launch and not case.cuda and host.cpu_flags and "avx2" not in host.cpu_flags:
        yield warn(
            "This processor has no AVX2, without which a model on the CPU is several times slower.",
            "Use a processor from 2015 or later; in a virtual machine, pass the host's model on.",
        )
    else:
        yield ok(f"{_processors(usable)} may be used.")


def _processors(number: float) -> str:
    return f"{number:g} processor{'s' * (number != 1)}"


def _numa(case: Case) -> Iterable[Finding]:
    host = case.facts.host
    nodes = {number: node for number, node in (host.nodes or {}).items() if node.cpus}
    if len(nodes) < 2:
        yield ok("One NUMA node.")
        return
    for gpu in case.facts.gpus[: case.ranks]:
        node = nodes.get(gpu.node) if gpu.node is not None else None
        if node is not None and not node.cpus & host.cpus:
            yield warn(
                f"{gpu.name} hangs on NUMA node {gpu.node}, and this process may not run there: copies cross nodes.",
                f"Start it with: numactl --cpunodebind={gpu.node} --preferred={gpu.node}",
            )
    if host.balancing and case.cuda:
        yield warn(
            f"{len(nodes)} NUMA nodes, and the kernel moves pages between them, which stalls the scheduler.",
            "Turn it off: sysctl kernel.numa_balancing=0",
        )
    else:
        yield ok(f"{len(nodes)} NUMA nodes: {', '.join(gib(node.memory) for node in nodes.values())}.")


CHECKS = (
    Check("limits.memlock", "memory that may be locked", _memlock),
    Check("limits.files", "files and connections that may be open", _files),
    Check("limits.threads", "threads that may be started", _threads),
    Check("limits.cpus", "processors that may be used, and what they can", _cpus),
    Check("limits.numa", "the process may run beside its GPU", _numa),
)
