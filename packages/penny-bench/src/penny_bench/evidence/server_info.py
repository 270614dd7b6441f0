"""What a server tells of itself. SGLang does; others answer 404, and then nothing is kept."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from penny_bench.client import Server, http_client
from penny_bench.evidence.redact import text
from penny_bench.server.metrics import MetricsReader
from penny_bench.server.pages import json_page
from penny_bench.server.pools import NAMES, pools
from penny_bench.server.storage import storage

PAGES = (
    ("server_info", "get_server_info"),
    ("model_info", "get_model_info"),
    ("version",),
    ("props",),
)
"""Pages at the root of the server: the name of today and, where there was one, the one before it. The first two are
SGLang's, then vLLM's and llama.cpp's."""

FIELDS = frozenset(
    [
        "version",
        "model_path",
        "served_model_name",
        "architectures",
        "model_type",
        "weight_version",
        "load_format",
        "device",
        "dtype",
        "quantization",
        "kv_cache_dtype",
        "page_size",
        "context_length",
        "tp_size",
        "dp_size",
        "pp_size",
        "ep_size",
        "mem_fraction_static",
        "max_running_requests",
        "max_total_num_tokens",
        "max_total_tokens",
        "max_prefill_tokens",
        "chunked_prefill_size",
        "schedule_policy",
        "disable_radix_cache",
        "enable_cache_report",
        "enable_hierarchical_cache",
        "disable_overlap_schedule",
        "disable_cuda_graph",
        "cuda_graph_max_bs",
        "attention_backend",
        "prefill_attention_backend",
        "decode_attention_backend",
        "sampling_backend",
        "grammar_backend",
        "moe_runner_backend",
        "reasoning_parser",
        "tool_call_parser",
        "random_seed",
        "speculative_algorithm",
        "speculative_num_steps",
        "speculative_eagle_topk",
        "speculative_num_draft_tokens",
        "speculative_draft_model_path",
        "speculative_draft_model_quantization",
        "speculative_draft_window_size",
        "speculative_dflash_block_size",
        "speculative_token_map",
        "speculative_attention_mode",
        "speculative_adaptive",
        "mamba_ssm_dtype",
        "mamba_radix_cache_strategy",
        "mamba_track_interval",
        "mamba_full_memory_ratio",
        "mamba_max_states_per_path",
        "max_mamba_cache_size",
        "radix_eviction_policy",
        "hicache_ratio",
        "hicache_size",
        "hicache_host_memory_mode",
        "hicache_write_policy",
        "hicache_io_backend",
        "hicache_mem_layout",
        "hicache_storage_backend",
        "hicache_storage_prefetch_policy",
        "linear_attn_backend",
        "linear_attn_decode_backend",
        "linear_attn_prefill_backend",
        "linear_attn_verify_backend",
        "fp8_gemm_runner_backend",
        "fp4_gemm_runner_backend",
        "mm_attention_backend",
        "ple_offload_embedding",
        "ple_offload_backend",
        "json_model_override_args",
        "enable_mixed_chunk",
        "prefill_decode_interval",
        "num_continuous_decode_steps",
        "stream_interval",
        "enable_metrics",
        "decode_log_interval",
        "startup_time",
        "enable_torch_compile",
        "enable_deterministic_inference",
        "build_info",
        "total_slots",
        "model_alias",
    ]
)
"""Fields that are kept. Nothing else is: server arguments may hold keys, addresses and paths."""

STATE_FIELDS = frozenset({"avg_spec_accept_length", "memory_usage", "effective_max_running_requests_per_dp"})
"""Fields that are kept of each of SGLang's `internal_states`."""


async def server_info(server: Server) -> dict[str, Any]:
    """The kept fields of each page that answers: `{"server_info": {...}, "model_info": {...}}`."""
    found: dict[str, Any] = {}
    async with http_client(server) as client:
        for names in PAGES:
            for name in names:
                page = await json_page(client, server, name)
                if page is not None:
                    found[names[0]] = kept(page)
                    break
    return found


async def server_state(server: Server) -> dict[str, Any]:
    """Memory and storage of the server, beside what `server_info` keeps.

    Returns:
        `{"pools": {...}, "storage": {...}, "not_told": {...}}`: see `Pools` and `Storage`; what is null there and why,
        as sentences by field, is in `not_told`.
    """
    async with http_client(server) as client:
        page = await json_page(client, server, PAGES[0][0]) or await json_page(client, server, PAGES[0][1])
        reader = MetricsReader(server, client, NAMES)
        found = pools(page, await reader.read())
    tiers = storage(page)
    reasons: dict[str, str] = {}
    if page is None and found is None:
        reasons["pools"] = f"There is no page /server_info. {reader.reason}".strip()
    elif reader.reason:
        reasons["pools"] = reader.reason
    if tiers.reason:
        reasons["storage"] = tiers.reason
    return {
        "pools": found and _plain(asdict(found)),
        "storage": _plain({key: value for key, value in asdict(tiers).items() if key != "reason"}),
        "not_told": reasons,
    }


def kept(page: dict[str, Any]) -> dict[str, Any]:
    """The fields of a page that may be published; paths are cut to their last part."""
    fields = {key: _plain(value) for key, value in sorted(page.items()) if key in FIELDS}
    states = page.get("internal_states")
    if isinstance(states, list):
        fields["internal_states"] = [
            {key: _plain(value) for key, value in sorted(state.items()) if key in STATE_FIELDS}
            for state in states
            if isinstance(state, dict)
        ]
    return fields


def _plain(value: Any) -> Any:
    """Strings without paths, numbers, and lists and dicts of these."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return value
