"""The counters of servers, against stored pages; values by hand."""

import asyncio
from typing import Any

import httpx
import pytest

from penny_bench.client import Server
from penny_bench.server import MetricsReader, control, parse_metrics
from penny_bench.server.transfers import Transfers, transfers

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


MOVED = """\
sglang:load_back_bytes_total{{tp_rank="0"}} {copied}
sglang:load_back_duration_seconds_sum{{tp_rank="0"}} {took}
sglang:prefetch_bandwidth_sum{{tp_rank="0"}} {rates}
sglang:prefetch_bandwidth_count{{tp_rank="0"}} {reads}
sglang:prefetched_tokens_total{{tp_rank="0"}} {tokens}
"""


def test_transfers_between_two_looks() -> None:
    before = parse_metrics(MOVED.format(copied=1e9, took=0.5, rates=4.0, reads=2, tokens=64))
    after = parse_metrics(MOVED.format(copied=4e9, took=0.75, rates=19.0, reads=5, tokens=640))
    assert transfers(before, after) == Transfers(
        host_rate=12e9,  # 3 GB in 0.25 s
        storage_rate=5e9,  # three reads, 15 GB/s in sum
        prefetched=576.0,
    )
    assert transfers(parse_metrics(""), before) == Transfers(2e9, 2e9, 64.0)
    assert transfers(before, before) == Transfers(None, None, None)
    assert transfers(None, after) == Transfers(None, None, None)


def waited(counts: list[str], earlier: float, longest: float) -> tuple[float | None, int]:
    """Tokens that were written while waiting, and how often the server was asked, the last count for ever."""
    asked = 0

    def handle(_: httpx.Request) -> httpx.Response:
        nonlocal asked
        asked += 1
        return httpx.Response(200, text=counts[min(asked, len(counts)) - 1])

    async def run() -> float | None:
        async with httpx.AsyncClient(transport=httpx.MockTransport(handle)) as client:
            return await control.wait_until_stored(MetricsReader(SERVER, client), earlier, longest)

    return asyncio.run(run()), asked


def written(tokens: int) -> str:
    return f"sglang:backuped_tokens_total {tokens}\n"


def test_waits_until_no_more_is_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control, "QUIET", 0.25)
    grows = [written(100), written(100), written(164), written(228)]
    assert waited(grows, 100.0, 30.0)[0] == 128.0
    assert waited([written(100)], 36.0, 30.0)[0] == 64.0  # all was there already
    nothing, asked = waited([written(100)], 100.0, 0.5)
    assert (nothing, asked > 3) == (0.0, True)  # it was given all the time
    assert waited(["other 1\n"], 0.0, 0.3)[0] is None
