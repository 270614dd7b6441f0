"""One run from the connection to its document, with everything that is sampled beside it."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from rich.console import Console

import penny_bench
from penny_bench.client import Server
from penny_bench.evidence import (
    Around,
    GpuSampler,
    Nvml,
    earlier_part,
    earlier_phases,
    evidence,
    server_info,
    server_state,
)
from penny_bench.load import Observer, RunPlan, RunResult, Silent, measure_run
from penny_bench.report.live import Live
from penny_bench.resume import check_server, earlier_entries
from penny_bench.server import ServerSampler
from penny_bench.workload import Workload, WorkloadResult, measure_workload


@dataclass(frozen=True)
class Target:
    """The server as the user names it; see `Server.connect`."""

    url: str
    model: str | None = None
    api_key: str | None = None
    timeout: float = 120.0
    count: Callable[[str], int] | None = None


def run_once(
    target: Target,
    what: RunPlan | Workload,
    seed: int,
    *,
    cached_limit: int = 32,
    floors: Mapping[str, float] | None = None,
    earlier: dict[str, Any] | None = None,
    notes: Sequence[str] = (),
    watch_server: bool = True,
    show: Console | None = None,
) -> dict[str, Any]:
    """Measure and return the document. Ctrl-C and SIGTERM end the run early; its document is then partial.

    Args:
        target: the server.
        what: a load or a workload.
        seed: of the workload; a load has its own.
        cached_limit: cached prompt tokens that a chat template may share.
        floors: best values that are possible, by `key` or `phase/key` of a metric.
        earlier: a partial document to go on with, from `read_partial`.
        notes: sentences for the reader.
        watch_server: whether to read the server's counters now and then; each look may hold up its streams for
            some ms.
        show: where to show how it goes; None for nowhere.

    Raises:
        BenchError: nothing could be measured.
    """
    started = datetime.now(UTC)
    silent: AbstractContextManager[Observer] = nullcontext(Silent())
    with GpuSampler(Nvml.load()) as gpu, Live(show, gpu=gpu) if show else silent as observer:
        try:
            result, info, samples = asyncio.run(
                _measure(target, what, seed, cached_limit, earlier, observer, watch_server)
            )
        except asyncio.CancelledError:  # SIGTERM before anything was measured
            raise KeyboardInterrupt from None
    around = Around(
        words=["penny-bench", *sys.argv[1:]],
        started=started,
        penny_bench=penny_bench.__version__,
        gpu=gpu,
        info=info,
        samples=samples,
        floors=floors or {},
        notes=notes,
        earlier=earlier_entries(earlier) if earlier else (),
    )
    return evidence(result, around)


async def _measure(
    target: Target,
    what: RunPlan | Workload,
    seed: int,
    cached_limit: int,
    earlier: dict[str, Any] | None,
    observer: Observer,
    watch_server: bool,
) -> tuple[RunResult | WorkloadResult, dict[str, Any], list[dict[str, float | None]]]:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)  # as Ctrl-C
    server = await Server.connect(target.url, target.model, target.api_key, target.timeout)
    server = replace(server, count=target.count)
    if earlier:
        check_server(earlier, server.model)
    info = {**await server_info(server), **await server_state(server)}
    watched: AbstractContextManager[ServerSampler | None] = nullcontext()
    with ServerSampler(server) if watch_server else watched as sampler:
        result: RunResult | WorkloadResult
        if isinstance(what, RunPlan):
            part = earlier_part(earlier) if earlier else None
            result = await measure_run(server, what, observer, part)
        else:
            phases = earlier_phases(earlier) if earlier else None
            result = await measure_workload(server, what, seed, cached_limit, observer, phases)
    return result, info, sampler.document() if sampler else []
