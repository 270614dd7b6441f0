"""A server's own times of one request, from its counters before and after.

SGLang and vLLM keep histograms of the stages of requests at `/metrics`. While one request runs alone, what their sums
grow by is that request's time, exactly; if a count grew by anything but one, nothing is told.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import httpx
from prometheus_client.parser import text_string_to_metric_families

from penny_bench.client import Server, Spans

Key = tuple[str, str]
"""Name of a histogram and, where it has one, its stage."""


@dataclass(frozen=True)
class _Dialect:
    source: str
    queue: Key
    prefill: Key
    whole: Key


_DIALECTS = (
    _Dialect(
        "sglang /metrics",
        ("sglang:queue_time_seconds", ""),
        ("sglang:per_stage_req_latency_seconds", "prefill_forward"),
        ("sglang:e2e_request_latency_seconds", ""),
    ),
    _Dialect(
        "vllm /metrics",
        ("vllm:request_queue_time_seconds", ""),
        ("vllm:request_prefill_time_seconds", ""),
        ("vllm:e2e_request_latency_seconds", ""),
    ),
)

Counters = dict[Key, tuple[float, float]]
"""Sum and count of each histogram, all labels but the stage added up."""

PATIENCE = 2.0
"""How long a server may take to count a request that has ended, s."""


def parse_counters(page: str) -> Counters:
    """The histograms that a dialect needs, from a page in Prometheus' text format.

    Raises:
        ValueError: the page is not in that format.
    """
    wanted = {key for d in _DIALECTS for key in (d.queue, d.prefill, d.whole)}
    sums: dict[Key, float] = {}
    counts: dict[Key, float] = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            for suffix, into in (("_sum", sums), ("_count", counts)):
                key = (sample.name.removesuffix(suffix), sample.labels.get("stage", ""))
                if sample.name.endswith(suffix) and key in wanted:
                    into[key] = into.get(key, 0.0) + sample.value
    return {key: (sums[key], counts.get(key, 0.0)) for key in sums}


def spans_between(before: Counters, after: Counters) -> Spans | None:
    """The spans of the one request that was counted between two pages; None if it was not just one."""
    for dialect in _DIALECTS:
        if dialect.prefill in after:
            queue, prefill, whole = (
                _one(before, after, key) for key in (dialect.queue, dialect.prefill, dialect.whole)
            )
            if prefill is None:
                return None
            rest = None if whole is None else max(0.0, whole - prefill - (queue or 0.0))
            return Spans(queue, prefill, rest, dialect.source)
    return None


class SpanProbe:
    """Reads a server's counters around requests that run alone; silent for servers without any."""

    def __init__(self, server: Server, client: httpx.AsyncClient) -> None:
        self._url = server.url.removesuffix("/v1") + "/metrics"
        self._headers = server.headers()
        self._client = client
        self._none = False

    async def before(self) -> Counters | None:
        """The counters now; None where the server has none."""
        if self._none:
            return None
        try:
            answer = await self._client.get(
                self._url, headers=self._headers, timeout=10.0, follow_redirects=True
            )
            counters = parse_counters(answer.text) if answer.status_code == 200 else {}
        except (httpx.HTTPError, ValueError):  # it need not have such a page
            counters = {}
        self._none = not counters
        return counters or None

    async def after(self, before: Counters | None) -> Spans | None:
        """The spans of the request that ran since `before`, once the server has counted it."""
        for _ in range(int(PATIENCE / 0.1)) if before is not None else ():
            counters = await self.before()
            if counters is None:
                return None
            spans = spans_between(before or {}, counters)
            if spans and spans.post_prefill is not None:
                return spans
            await asyncio.sleep(0.1)
        return None


def _one(before: Counters, after: Counters, key: Key) -> float | None:
    total, count = after.get(key, (0.0, 0.0))
    earlier, counted = before.get(key, (0.0, 0.0))
    return total - earlier if count - counted == 1 else None
