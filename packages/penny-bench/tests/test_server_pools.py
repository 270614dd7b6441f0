"""Memory and storage that servers tell of, against stored pages; values by hand."""

import asyncio
from typing import Any

import pytest

from penny_bench.client import Server
from penny_bench.evidence.server_info import server_info, server_state
from penny_bench.mock import MockServer
from penny_bench.server import parse_metrics
from penny_bench.server.pools import Pools, pools
from penny_bench.server.storage import Storage, storage

GAUGES = """\
sglang:max_total_num_tokens{tp_rank="0"} 824384.0
sglang:weight_memory_usage_gb{tp_rank="0"} 40.25
sglang:kv_cache_memory_usage_gb{tp_rank="0"} 26.5
sglang:graph_memory_usage_gb{phase="decode",tp_rank="0"} 1.25
sglang:graph_memory_usage_gb{phase="target_verify",tp_rank="0"} 0.5
sglang:page_size{tp_rank="0"} 64.0
sglang:context_len{tp_rank="0"} 524288.0
sglang:startup_available_gpu_memory_gb{tp_rank="0"} 3.6601
sglang:mamba_available_tokens{tp_rank="0"} 20.0
sglang:mamba_evictable_tokens{tp_rank="0"} 3.0
sglang:mamba_used_tokens{tp_rank="0"} 1.0
sglang:hicache_host_total_tokens{tp_rank="0"} 2000000.0
"""
STATE = {
    "effective_max_running_requests_per_dp": 4,
    "memory_usage": {"weight": 40.25, "kvcache": 26.5, "startup_available": 3.66, "graph": {"decode": 1.25}},
}


def test_pools_of_sglang() -> None:
    info = {"max_total_num_tokens": 824384, "page_size": 64, "internal_states": [STATE]}
    expected = Pools(
        free_gib=3.6601,
        weights_gib=40.25,
        kv_cache_gib=26.5,
        graphs_gib=1.75,
        graphs={"decode": 1.25, "target_verify": 0.5},
        tokens=824384,
        page_size=64,
        context=524288,
        mamba_slots=24,
        host_tokens=2_000_000,
        running=4,
    )
    assert pools(info, parse_metrics(GAUGES)) == expected
    assert pools({**info, "context_length": 524288}, None) == Pools(
        free_gib=3.66,
        weights_gib=40.25,
        kv_cache_gib=26.5,
        graphs_gib=1.25,
        graphs={"decode": 1.25},
        tokens=824384,
        page_size=64,
        context=524288,
        running=4,
    )


def test_pools_of_vllm_and_of_nobody() -> None:
    page = 'vllm:cache_config_info{block_size="16",cache_dtype="auto",num_gpu_blocks="1000"} 1.0\n'
    assert pools(None, parse_metrics(page)) == Pools(tokens=16_000, page_size=16)
    assert pools(None, parse_metrics(page.replace('"1000"', '"None"'))) == Pools(page_size=16)
    assert pools(None, None) is None
    assert pools({"internal_states": ["odd"]}, parse_metrics("")) is None


BACKED: dict[str, Any] = {
    "enable_hierarchical_cache": True,
    "hicache_storage_backend": "nixl",
    "hicache_write_policy": "write_through",
    "hicache_storage_prefetch_policy": "timeout",
}


@pytest.mark.parametrize(
    ("config", "namespace", "reason"),
    [
        ('{"namespace": "qwen_524k_0a1b2c3d4e5f"}', "qwen_524k_0a1b2c3d4e5f", ""),
        ({"storage_dir": "/mnt/me/cache/tiny_0a1b2c3d4e5f/"}, "tiny_0a1b2c3d4e5f", ""),
        ({"namespace": "/mnt/me/x"}, "x", ""),
        ("@/etc/me/nixl.toml", None, "The storage is configured by the file nixl.toml on the server."),
        ("{", None, "The configuration of the storage is not JSON."),
        (None, None, "name no folder; its environment may"),
    ],
)
def test_namespace_without_path(config: Any, namespace: str | None, reason: str) -> None:
    found = storage({**BACKED, "hicache_storage_backend_extra_config": config})
    assert (found.host, found.backend, found.told) == (True, "nixl", True)
    assert (found.write_policy, found.prefetch_policy) == ("write_through", "timeout")
    assert found.namespace == namespace
    assert reason in found.reason
    assert bool(found.reason) == bool(reason)


def test_storage_of_other_kinds() -> None:
    none = {"enable_hierarchical_cache": False, "hicache_storage_backend": None}
    assert storage(none) == Storage(host=False, backend=None, told=True)
    linked = {
        **none,
        "enable_unified_cache_external_linker": True,
        "unified_cache_external_linker_backend": "ours",
        "unified_cache_external_linker_config": {"path": "/mnt/n1"},
    }
    found = storage(linked)
    assert (found.host, found.backend, found.namespace) == (False, "ours", "n1")
    assert storage({**none, "enable_lmcache": True}).backend == "lmcache"
    assert (
        storage({**none, "file_storage_path": "~/kv/n2", "hicache_storage_backend": "file"}).namespace == "n2"
    )
    assert not storage(None).told


def asked(pages: dict[str, Any], what: Any) -> dict[str, Any]:
    async def run() -> dict[str, Any]:
        async with MockServer(lambda number, body: [], pages).start() as mock:
            return dict(await what(await Server.connect(mock.url)))

    return asyncio.run(run())


def test_state_says_what_is_not_told() -> None:
    page = {**BACKED, "internal_states": [STATE], "hicache_storage_backend_extra_config": "@/secret/n.toml"}
    state = asked({"/server_info": page}, server_state)
    assert state["pools"]["free_gib"] == 3.66
    assert state["pools"]["host_tokens"] is None
    assert state["storage"]["backend"] == "nixl"
    assert state["storage"]["namespace"] is None
    assert "HTTP 404" in state["not_told"]["pools"]  # there are no gauges
    assert "n.toml" in state["not_told"]["storage"]
    assert "secret" not in str(state)
    nothing = asked({}, server_state)
    assert nothing["pools"] is None
    assert "There is no page /server_info. The server has no page /metrics" in nothing["not_told"]["pools"]
    assert nothing["not_told"]["storage"] == "The server does not tell its storage."


def test_versions_of_other_servers() -> None:
    pages = {
        "/version": {"version": "0.19.1"},
        "/props": {
            "build_info": "b9999-abc",
            "model_path": "/home/me/x.gguf",
            "chat_template": "{{ secret }}",
        },
    }
    assert asked(pages, server_info) == {
        "version": {"version": "0.19.1"},
        "props": {"build_info": "b9999-abc", "model_path": "x.gguf"},
    }
