"""Start-up phases of the scheduler as events for ``penny serve``; observes, changes nothing."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penny_server.events import emit
from penny_server.sglang.backends import resolved_backends
from penny_server.sglang.probes import hooked
from penny_server.sglang.seam import Seam

RUNNER = "sglang.srt.model_executor.model_runner.ModelRunner"


def _load_model(original: Callable[..., Any], runner: Any, *args: Any, **kwargs: Any) -> Any:
    draft = bool(runner.is_draft_worker)
    if not draft:
        emit("imports", "end")
    emit("weights", "begin", draft=draft)
    result = original(runner, *args, **kwargs)
    size = sum(p.numel() * p.element_size() for p in runner.model.parameters())
    emit("weights", "end", draft=draft, bytes=size)
    return result


def _alloc_memory_pool(original: Callable[..., Any], runner: Any, *args: Any, **kwargs: Any) -> Any:
    draft = bool(runner.is_draft_worker)
    emit("pools", "begin", draft=draft)
    result = original(runner, *args, **kwargs)
    detail = {"tokens": runner.max_total_num_tokens, "requests": runner.max_running_requests}
    emit("pools", "end", draft=draft, **detail)
    return result


def _init_cuda_graphs(original: Callable[..., Any], runner: Any, *args: Any, **kwargs: Any) -> Any:
    draft = bool(runner.is_draft_worker)
    emit("graphs", "begin", draft=draft)
    result = original(runner, *args, **kwargs)
    emit("graphs", "end", draft=draft, device=str(runner.device))
    from sglang.srt.runtime_context import get_parallel

    if get_parallel().tp_rank == 0:
        emit("backends", "end", draft=draft, resolved=resolved_backends(runner))
    return result


def _phase(method: str, digest: str, hook: Callable[..., Any], summary: str) -> Seam:
    return Seam(
        name=f"progress.{method.strip('_')}",
        feature="progress",
        target=f"{RUNNER}.{method}",
        digest=digest,
        summary=summary,
        kind="around",
        hook=hook,
        probe=lambda: hooked(f"{RUNNER}.{method}"),
        roles=("scheduler",),
    )


SEAMS = (
    _phase(
        "load_model",
        "bf6781e45efd63b5",
        _load_model,
        "says when weights start and end to load, and their bytes",
    ),
    _phase(
        "alloc_memory_pool",
        "83a744460cb1c54d",
        _alloc_memory_pool,
        "says when the pools are built, and their size",
    ),
    _phase(
        "init_cuda_graphs", "2aa82ac4d99b47a5", _init_cuda_graphs, "says when graph capture starts and ends"
    ),
)
