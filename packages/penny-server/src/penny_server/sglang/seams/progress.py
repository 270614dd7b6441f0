"""Start-up phases of the scheduler as events for ``penny serve``; observes, changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

from penny_server.events import emit
from penny_server.sglang import measured
from penny_server.sglang.backends import resolved_backends
from penny_server.sglang.builds import Builds, watch
from penny_server.sglang.meter import Throttle, counted, tensor_bytes
from penny_server.sglang.probes import hooked
from penny_server.sglang.seam import Seam

RUNNER = "sglang.srt.model_executor.model_runner.ModelRunner"
LOADER = "sglang.srt.model_loader.loader.DefaultModelLoader._get_weights_iterator"
GRAPHS = "sglang.srt.model_executor.runner"
DECODE = f"{GRAPHS}.decode_cuda_graph_runner.DecodeCudaGraphRunner._set_profile_trace_tag"
PREFILL = f"{GRAPHS}.prefill_cuda_graph_runner.PrefillCudaGraphRunner.capture_one_shape"


def _leads() -> bool:
    from sglang.srt.runtime_context import get_parallel

    return bool(get_parallel().tp_rank == 0)


@cache
def _watched() -> Builds:
    """What this process compiles, watched from the first call on."""
    builds = Builds()
    watch(builds)
    return builds


def _load_model(original: Callable[..., Any], runner: Any, *args: Any, **kwargs: Any) -> Any:
    draft = bool(runner.is_draft_worker)
    if not draft:
        emit("imports", "end")
    if runner.device != "cpu":
        _watched()
    emit("weights", "begin", draft=draft)
    result = original(runner, *args, **kwargs)
    emit("weights", "end", draft=draft, **measured.weights(runner))
    return result


def _weights_iterator(
    original: Callable[..., Iterator[Any]], loader: Any, source: Any, *args: Any, **kwargs: Any
) -> Iterator[Any]:
    weights = original(loader, source, *args, **kwargs)
    return counted(weights, tensor_bytes(Path(source.model_or_path))) if _leads() else weights


def _alloc_memory_pool(original: Callable[..., Any], runner: Any, *args: Any, **kwargs: Any) -> Any:
    draft = bool(runner.is_draft_worker)
    emit("pools", "begin", draft=draft)
    result = original(runner, *args, **kwargs)
    emit("pools", "end", draft=draft, **measured.pools(runner))
    return result


def _init_cuda_graphs(original: Callable[..., Any], runner: Any, *args: Any, **kwargs: Any) -> Any:
    draft = bool(runner.is_draft_worker)
    emit("graphs", "begin", draft=draft)
    result = original(runner, *args, **kwargs)
    emit("graphs", "end", draft=draft, device=str(runner.device), **measured.graphs(runner))
    if runner.device != "cpu":
        _watched().tell()
    if _leads():
        emit("backends", "end", draft=draft, resolved=resolved_backends(runner))
    return result


def capturing(sizes: str, what: str, leads: Callable[[], bool] = _leads) -> Callable[..., None]:
    """A hook that is told before each size is captured, the largest first as stock goes; ``sizes`` is the runner's
    attribute that lists them all."""
    throttle = Throttle()

    def hook(runner: Any, size: int, *args: Any, **kwargs: Any) -> None:
        every = sorted(getattr(runner, sizes), reverse=True)
        if size not in every or not leads():
            return
        done = every.index(size)
        if throttle.due():
            note = f"{what} {size}, {done} of {len(every)} captured"
            emit("graphs", "progress", fraction=done / len(every), note=note)

    return hook


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
    Seam(
        "progress.weights-by-bytes",
        "progress",
        LOADER,
        "66d216d6f9e3b69b",
        "counts the bytes of the tensors that are loaded",
        "around",
        _weights_iterator,
        lambda: hooked(LOADER),
        ("scheduler",),
    ),
    Seam(
        "progress.decode-graphs",
        "progress",
        DECODE,
        "672049e62b99385f",
        "says which batch size is captured, of model and draft",
        "before",
        capturing("capture_bs", "batch"),
        lambda: hooked(DECODE),
        ("scheduler",),
    ),
    Seam(
        "progress.prefill-graphs",
        "progress",
        PREFILL,
        "2dc3e361504418c2",
        "says which prefill size is captured",
        "before",
        capturing("capture_num_tokens", "tokens"),
        lambda: hooked(PREFILL),
        ("scheduler",),
    ),
)
