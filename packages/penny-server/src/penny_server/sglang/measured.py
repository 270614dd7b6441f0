"""What a start really took, read from the objects of a running `ModelRunner`; all sizes in bytes."""

from __future__ import annotations

from typing import Any

GIB = 1 << 30


def weights(runner: Any) -> dict[str, int]:
    """After loading: the model's parameters, and on a GPU what was free before and what is gone since."""
    found = {"bytes": sum(p.numel() * p.element_size() for p in runner.model.parameters())}
    if runner.device != "cpu":
        found["free_before"] = int(runner.pre_model_load_memory * GIB)
        found["taken"] = int(runner.weight_load_mem_usage * GIB)
    return found


def pools(runner: Any) -> dict[str, int]:
    """After the pools were built: their capacity and size."""
    found = {"tokens": runner.max_total_num_tokens, "requests": runner.max_running_requests}
    sizes = getattr(runner.token_to_kv_pool, "get_kv_size_bytes", None)
    if sizes is not None:
        size = sizes()
        found["kv"] = int(sum(size) if isinstance(size, tuple) else size)
    states = getattr(runner.req_to_token_pool, "mamba_pool", None)
    if states is not None:
        found["slots"] = int(states.size)
        found["states"] = round(states.mem_usage * GIB)
    return found


def graphs(runner: Any) -> dict[str, int]:
    """After the graphs were captured, on a GPU: what they took and what is free."""
    if runner.device == "cpu":
        return {}
    from sglang.srt.utils.common import get_available_gpu_memory

    free = get_available_gpu_memory(runner.device, runner.gpu_id, empty_cache=False)
    return {"graphs": int(sum(runner.graph_memory_usage.values()) * GIB), "free": int(free * GIB)}
