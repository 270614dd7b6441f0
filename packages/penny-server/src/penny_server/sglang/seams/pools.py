"""A pool size that was asked for is had or refused; stock logs a warning and serves a smaller pool."""

from __future__ import annotations

from typing import Any

from penny_server.events import emit
from penny_server.sglang.probes import hooked
from penny_server.sglang.seam import Seam

CONSTRAINTS = "sglang.srt.mem_cache.kv_cache_configurator.KVCacheConfigurator._apply_token_constraints"
EXIT_START_FAILED = 5


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


def _refuse_a_smaller_pool(configurator: Any, token_capacity: int) -> None:
    from sglang.srt.runtime_context import get_schedule

    message = refusal(get_schedule().max_total_tokens, token_capacity)
    if message:
        emit("pools", "fail", message=message, exit_code=EXIT_START_FAILED)
        raise PoolSizeError(message)


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
)
