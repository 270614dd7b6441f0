"""Pool sizes that were asked for are had or refused; stock logs a warning and serves with smaller ones."""

from __future__ import annotations

from typing import Any

from penny_server.events import emit
from penny_server.sglang.probes import hooked
from penny_server.sglang.seam import Seam

CONSTRAINTS = "sglang.srt.mem_cache.kv_cache_configurator.KVCacheConfigurator._apply_token_constraints"
EXIT_START_FAILED = 5


NUM_REQUESTS = "sglang.srt.mem_cache.kv_cache_configurator.KVCacheConfigurator.resolve_max_num_reqs"


class PoolSizeError(RuntimeError):
    """The KV pool asked for needs more memory than there is."""


def refusal(asked: int | None, fitting: int) -> str | None:
    """The sentence for a pool of ``asked`` tokens where ``fitting`` tokens fit; None when it fits."""
    if asked is None or asked <= fitting:
        return None
    return (
        f"The KV pool does not fit: max_total_tokens is {asked:,}, and {fitting:,} tokens fit into the memory "
        f"that is left. Start with --set max_total_tokens={fitting} or less, or free memory."
    )


def requests_refusal(asked: int | None, had: int, slots: int | None) -> str | None:
    """The sentence for ``asked`` concurrent requests where the pools serve ``had``; None when they serve them."""
    if asked is None or asked <= had:
        return None
    return (
        f"The pools do not fit: max_running_requests is {asked}, and they serve {had} at once (max_mamba_cache_size "
        f"is {slots}). Raise max_mamba_cache_size or max_total_tokens with --set, or ask for {had} requests."
    )


def _refuse(message: str | None) -> None:
    if message:
        emit("pools", "fail", message=message, exit_code=EXIT_START_FAILED)
        raise PoolSizeError(message)


def _refuse_fewer_requests(had: int, configurator: Any, token_capacity: int) -> None:
    from sglang.srt.runtime_context import get_schedule

    schedule = get_schedule()
    asked = schedule.max_running_requests
    asked = max(1, asked // configurator.attn_dp_size) if asked else None
    _refuse(requests_refusal(asked, had, schedule.max_mamba_cache_size))


def _refuse_a_smaller_pool(configurator: Any, token_capacity: int) -> None:
    from sglang.srt.runtime_context import get_schedule

    _refuse(refusal(get_schedule().max_total_tokens, token_capacity))


SEAMS = (
    Seam(
        "pools.as-asked",
        "pools",
        CONSTRAINTS,
        "882ff8108135390d",
        "refuses to start with a smaller KV pool than was asked for",
        "before",
        _refuse_a_smaller_pool,
        lambda: hooked(CONSTRAINTS),
        ("scheduler",),
    ),
    Seam(
        "pools.requests-as-asked",
        "pools",
        NUM_REQUESTS,
        "8f54d8945c2fd37a",
        "refuses to start with room for fewer requests than were asked for",
        "after",
        _refuse_fewer_requests,
        lambda: hooked(NUM_REQUESTS),
        ("scheduler",),
    ),
)
