"""Memory that a server has, and what of it is left: told once, when it starts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penny_bench.server.metrics import MetricsPage


@dataclass(frozen=True, kw_only=True)
class Pools:
    """None is what the server does not tell. GiB are of one device.

    Attributes:
        free_gib: memory free when everything was loaded and all graphs were captured. SGLang on a CPU: main memory.
        weights_gib, kv_cache_gib: of the target model; the KV pool of a draft model is not in it.
        graphs_gib: of all captured graphs, those of the draft too.
        graphs: the same by phase.
        tokens: capacity of the KV pool.
        page_size: tokens of a page.
        context: longest context, tokens.
        mamba_slots: capacity for recurrent states.
        host_tokens, host_mamba_slots: capacity of the host tier.
        running: most requests at once.
    """

    free_gib: float | None = None
    weights_gib: float | None = None
    kv_cache_gib: float | None = None
    graphs_gib: float | None = None
    graphs: Mapping[str, float] | None = None
    tokens: int | None = None
    page_size: int | None = None
    context: int | None = None
    mamba_slots: int | None = None
    host_tokens: int | None = None
    host_mamba_slots: int | None = None
    running: int | None = None


NAMES = (
    "sglang:startup_available_gpu_memory_gb",
    "sglang:weight_memory_usage_gb",
    "sglang:kv_cache_memory_usage_gb",
    "sglang:graph_memory_usage_gb",
    "sglang:max_total_num_tokens",
    "sglang:page_size",
    "sglang:context_len",
    "sglang:mamba_available_tokens",
    "sglang:mamba_evictable_tokens",
    "sglang:mamba_used_tokens",
    "sglang:hicache_host_total_tokens",
    "sglang:hicache_host_mamba_total_states",
    "vllm:cache_config_info",
)
"""Values of `/metrics` that are read."""


def pools(info: Mapping[str, Any] | None, page: MetricsPage | None) -> Pools | None:
    """From SGLang's `/server_info` and its gauges, the gauges first as they are not rounded; else vLLM's labels.

    None where neither tells anything.
    """
    page = page or MetricsPage()
    info = info or {}
    state = _state(info)
    memory = state.get("memory_usage") if isinstance(state.get("memory_usage"), dict) else {}
    assert isinstance(memory, dict)
    graphs = page.by("sglang:graph_memory_usage_gb", "phase") or _numbers(memory.get("graph"))
    slots = [page.value(f"sglang:mamba_{what}_tokens") for what in ("available", "evictable", "used")]
    found = Pools(
        free_gib=_either(page, "sglang:startup_available_gpu_memory_gb", memory.get("startup_available")),
        weights_gib=_either(page, "sglang:weight_memory_usage_gb", memory.get("weight")),
        kv_cache_gib=_either(page, "sglang:kv_cache_memory_usage_gb", memory.get("kvcache")),
        graphs_gib=sum(graphs.values()) if graphs else None,
        graphs=graphs or None,
        tokens=_count(page, "sglang:max_total_num_tokens", info.get("max_total_num_tokens"))
        or _vllm(page, "num_gpu_blocks", "block_size"),
        page_size=_count(page, "sglang:page_size", info.get("page_size")) or _vllm(page, "block_size"),
        context=_count(page, "sglang:context_len", info.get("context_length")),
        mamba_slots=round(sum(n for n in slots if n)) or None,
        host_tokens=_count(page, "sglang:hicache_host_total_tokens", None),
        host_mamba_slots=_count(page, "sglang:hicache_host_mamba_total_states", None),
        running=_whole(state.get("effective_max_running_requests_per_dp")),
    )
    return None if found == Pools() else found


def _state(info: Mapping[str, Any]) -> dict[str, Any]:
    states = info.get("internal_states")
    first = states[0] if isinstance(states, list) and states else None
    return first if isinstance(first, dict) else {}


def _either(page: MetricsPage, name: str, other: Any) -> float | None:
    value = page.value(name)
    if value is None and isinstance(other, int | float):
        value = float(other)
    return value


def _count(page: MetricsPage, name: str, other: Any) -> int | None:
    return _whole(_either(page, name, other))


def _whole(value: Any) -> int | None:
    return round(value) if isinstance(value, int | float) else None


def _numbers(values: Any) -> dict[str, float]:
    pairs = values.items() if isinstance(values, dict) else ()
    return {str(key): float(value) for key, value in pairs if isinstance(value, int | float)}


def _vllm(page: MetricsPage, *labels: str) -> int | None:
    """Product of numbers that vLLM gives as labels."""
    product = 1
    for label in labels:
        texts = [text for text in page.by("vllm:cache_config_info", label) if text.isdecimal()]
        if not texts:
            return None
        product *= int(texts[0])
    return product
