"""How fast a server says that it moved cached prefixes between its tiers."""

from __future__ import annotations

from dataclasses import dataclass

from penny_bench.server.metrics import MetricsPage

NAMES = (
    "sglang:load_back_bytes_total",
    "sglang:load_back_duration_seconds",
    "sglang:prefetch_bandwidth",
    "sglang:prefetched_tokens_total",
    "sglang:evicted_tokens_total",
    "sglang:backuped_tokens_total",
)
"""Values of `/metrics` that are read."""


@dataclass(frozen=True)
class Transfers:
    """Between two looks at the counters; None where the server does not tell or nothing moved.

    Attributes:
        host_rate: host to device: bytes of all pools / time of the copies, bytes/s.
        storage_rate: storage to host: mean of the single reads, as the server measured them, bytes/s.
        prefetched: tokens read from storage, used or not.
    """

    host_rate: float | None
    storage_rate: float | None
    prefetched: float | None


def transfers(before: MetricsPage | None, after: MetricsPage | None) -> Transfers:
    """What SGLang moved between two pages."""
    if before is None or after is None:
        return Transfers(None, None, None)

    def grown(name: str) -> float:
        return (after.value(name) or 0.0) - (before.value(name) or 0.0)

    copied, took = grown("sglang:load_back_bytes_total"), grown("sglang:load_back_duration_seconds_sum")
    reads, rates = grown("sglang:prefetch_bandwidth_count"), grown("sglang:prefetch_bandwidth_sum")
    return Transfers(
        copied / took if copied > 0 and took > 0 else None,
        rates / reads * 1e9 if reads > 0 and rates > 0 else None,
        grown("sglang:prefetched_tokens_total") or None,
    )
