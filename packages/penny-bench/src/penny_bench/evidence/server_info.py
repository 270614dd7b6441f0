"""What a server tells of itself. SGLang does; others answer 404, and then nothing is kept."""

from __future__ import annotations

from typing import Any

import httpx

from penny_bench.client import Server, http_client
from penny_bench.evidence.redact import text

PAGES = (("server_info", "get_server_info"), ("model_info", "get_model_info"))
"""Pages at the root of the server: the name of today and the one before it."""

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
        "enable_torch_compile",
        "enable_deterministic_inference",
    ]
)
"""Fields that are kept. Nothing else is: server arguments may hold keys, addresses and paths."""

STATE_FIELDS = frozenset({"avg_spec_accept_length", "memory_usage", "effective_max_running_requests_per_dp"})
"""Fields that are kept of each of SGLang's `internal_states`."""


async def server_info(server: Server) -> dict[str, Any]:
    """The kept fields of each page that answers: `{"server_info": {...}, "model_info": {...}}`."""
    root = server.url.removesuffix("/v1")
    found: dict[str, Any] = {}
    async with http_client(server) as client:
        for names in PAGES:
            for name in names:
                page = await _page(client, f"{root}/{name}", server)
                if page is not None:
                    found[names[0]] = kept(page)
                    break
    return found


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


async def _page(client: httpx.AsyncClient, url: str, server: Server) -> dict[str, Any] | None:
    try:
        answer = await client.get(url, headers=server.headers(), timeout=5.0)
        page = answer.json() if answer.status_code == 200 else None
    except (httpx.HTTPError, ValueError):  # it need not have such a page
        return None
    return page if isinstance(page, dict) else None


def _plain(value: Any) -> Any:
    """Strings without paths, numbers, and lists and dicts of these."""
    if isinstance(value, str):
        return text(value)
    if isinstance(value, list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    return value
