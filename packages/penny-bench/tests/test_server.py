"""The counters of servers, against stored pages; values by hand."""

import asyncio
from typing import Any

import httpx
import pytest

from penny_bench.client import Server
from penny_bench.server import MetricsReader, parse_metrics

SERVER = Server(url="http://host:1/v1", api_key="sesame")

RANKS = """\
# HELP sglang:queue_time_seconds Histogram of queueing time in seconds.
# TYPE sglang:queue_time_seconds histogram
sglang:queue_time_seconds_sum{dp_rank="0",model_name="m",tp_rank="0"} 1.5
sglang:queue_time_seconds_sum{dp_rank="0",model_name="m",tp_rank="1"} 1.25
sglang:queue_time_seconds_sum{dp_rank="1",model_name="m",tp_rank="0"} 4.0
sglang:queue_time_seconds_bucket{dp_rank="1",le="0.1",model_name="m",tp_rank="0"} 7.0
# TYPE sglang:cached_tokens_total counter
sglang:cached_tokens_total{cache_source="device",model_name="m"} 640.0
sglang:cached_tokens_total{cache_source="host",model_name="m"} 64.0
# TYPE sglang:fwd_occupancy gauge
sglang:fwd_occupancy{tp_rank="0"} NaN
"""


def test_ranks_of_one_work_count_once_and_other_labels_add_up() -> None:
    page = parse_metrics(RANKS)
    assert page.value("sglang:queue_time_seconds_sum") == 1.5 + 4.0
    assert page.value("sglang:queue_time_seconds_sum", dp_rank="1") == 4.0
    assert page.value("sglang:queue_time_seconds_sum", dp_rank="2") is None
    assert page.value("sglang:cached_tokens_total") == 704.0
    assert page.by("sglang:cached_tokens_total", "cache_source") == {"device": 640.0, "host": 64.0}
    assert page.value("sglang:fwd_occupancy") is None  # no number
    assert page.value("sglang:nothing") is None


def test_only_what_is_asked_for_is_read() -> None:
    page = parse_metrics(RANKS, ["sglang:cached", "sglang:queue_time_seconds_sum"])
    assert page.names() == {"sglang:cached_tokens_total", "sglang:queue_time_seconds_sum"}


def read(answer: Any) -> tuple[Any, MetricsReader, list[httpx.Request]]:
    """Two reads of a server that answers so: the second page, the reader and the requests."""
    seen: list[httpx.Request] = []

    def handle(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        if isinstance(answer, Exception):
            raise answer
        return httpx.Response(*answer) if isinstance(answer, tuple) else answer

    async def run() -> tuple[Any, MetricsReader]:
        async with httpx.AsyncClient(transport=httpx.MockTransport(handle)) as client:
            reader = MetricsReader(SERVER, client)
            await reader.read()
            return await reader.read(), reader

    return (*asyncio.run(run()), seen)


def test_reader() -> None:
    page, reader, seen = read(httpx.Response(200, text=RANKS))
    assert page.value("sglang:cached_tokens_total", cache_source="host") == 64.0
    assert reader.reason == ""
    assert str(seen[0].url) == "http://host:1/metrics"
    assert seen[0].headers["authorization"] == "Bearer sesame"


@pytest.mark.parametrize(
    ("answer", "words", "asked"),
    [
        (httpx.Response(404), "no page /metrics (HTTP 404); SGLang has it with --enable-metrics", 1),
        (httpx.Response(503), "no page /metrics (HTTP 503)", 2),  # it may come back
        (httpx.Response(200, text="a{ 1\n"), "not in the text format of Prometheus", 1),
        (httpx.ReadTimeout("slow"), "did not come (ReadTimeout)", 2),
    ],
)
def test_no_page_has_a_reason(answer: Any, words: str, asked: int) -> None:
    page, reader, seen = read(answer)
    assert page is None
    assert words in reader.reason
    assert len(seen) == asked
