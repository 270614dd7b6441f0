"""Runs a workload against a server."""

from __future__ import annotations

import asyncio

from penny_bench.client import Server, http_client
from penny_bench.load.garbage import collected_by_hand
from penny_bench.load.observer import Observer
from penny_bench.load.own_cost import LoopProbe
from penny_bench.measure import Clock, preflight
from penny_bench.workload.bench import Bench
from penny_bench.workload.result import EarlierPhases, WorkloadResult
from penny_bench.workload.spec import Workload


async def measure_workload(
    server: Server,
    workload: Workload,
    seed: int,
    cached_limit: int = 32,
    observer: Observer | None = None,
    earlier: EarlierPhases | None = None,
) -> WorkloadResult:
    """Run the workload. If the task is cancelled meanwhile (Ctrl-C), return what was measured so far.

    Args:
        server: from `Server.connect`.
        workload: from `read_workload`.
        seed: of prompts and cases.
        cached_limit: cached prompt tokens that a chat template may share between prompts.
        observer: is told what goes on.
        earlier: what an interrupted run of the same workload and seed had finished; it is not sent again.

    Raises:
        BenchError: a first request failed, or the workload cannot be run on this server.
    """
    server, first, gauge = await preflight(server, seed)
    complete = True
    async with http_client(server) as client:
        with collected_by_hand():
            clock = Clock(earlier.seconds if earlier else 0.0)
            bench = Bench(server, client, clock, gauge, seed, workload.sampling, observer, earlier)
            probe = LoopProbe(clock)
            watcher = asyncio.create_task(probe.watch())
            try:
                await workload.kind.run(bench, workload.settings)
            except asyncio.CancelledError:
                complete = False
            finally:
                watcher.cancel()
            seconds = clock()
    return WorkloadResult(
        server=server,
        workload=workload,
        seed=seed,
        cached_limit=cached_limit,
        preflight=first,
        phases=tuple(bench.phases),
        metrics=tuple(bench.metrics),
        notes=tuple(bench.notes),
        seconds=seconds,
        own=probe.cost(seconds, []),
        complete=complete,
        zero=clock.zero,
    )
