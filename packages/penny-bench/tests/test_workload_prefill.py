"""Cold prefill against a mock whose counters are programmed; rates by hand."""

import asyncio
from typing import Any

import httpx
import pytest

from penny_bench.client import Arrival, Failure, Server, Spans, StreamRecord
from penny_bench.measure import new_clock, preflight
from penny_bench.mock import MockServer, Script, token_script
from penny_bench.workload import Bench, read_workload
from penny_bench.workload.kinds.prefill import KIND, Settings, prefill_rate

PAGE = """\
sglang:queue_time_seconds_sum {queue}
sglang:queue_time_seconds_count {n}
sglang:per_stage_req_latency_seconds_sum{{stage="prefill_forward"}} {prefill}
sglang:per_stage_req_latency_seconds_count{{stage="prefill_forward"}} {n}
sglang:time_to_first_token_seconds_sum {first}
sglang:time_to_first_token_seconds_count {n}
sglang:e2e_request_latency_seconds_sum {whole}
sglang:e2e_request_latency_seconds_count {n}
"""


class Counting:
    """Says of every request that it waited 1 ms, was prefilled in `span` and decoded for 4 ms; TTFT is 30 ms."""

    def __init__(self, span: float) -> None:
        self.span = span
        self.n = 0

    def answer(self, number: int, body: dict[str, Any]) -> Script:
        self.n += 1
        text = body["messages"][0]["content"]
        return token_script(
            tokens=body["max_tokens"], first=0.03, prompt_tokens=len(text), usage="running", cached_tokens=0
        )

    def metrics(self) -> str:
        each = {"queue": 0.001, "prefill": self.span, "first": 0.025, "whole": 0.029}
        return PAGE.format(n=self.n, **{key: self.n * value for key, value in each.items()})


class Routed(httpx.AsyncBaseTransport):
    def __init__(self, counting: Counting, status: int) -> None:
        self.counting, self.status = counting, status
        self.network = httpx.AsyncHTTPTransport()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if request.url.path == "/metrics":
            return httpx.Response(self.status, text=self.counting.metrics())
        return await self.network.handle_async_request(request)


def ran(counting: Counting, status: int = 200) -> Bench:
    async def run() -> Bench:
        async with MockServer(counting.answer).start() as mock:
            server, _, gauge = await preflight(await Server.connect(mock.url), 3)
            async with httpx.AsyncClient(transport=Routed(counting, status)) as client:
                bench = Bench(server, client, new_clock(), gauge, 3, {})
                async with asyncio.timeout(60):
                    await KIND.run(bench, Settings(prompt_tokens=(1000, 2000), runs=3))
                return bench

    return asyncio.run(run())


def test_rate_is_of_the_servers_span_and_ttft_stands_beside() -> None:
    bench = ran(Counting(span=0.02))
    found = {(m.phase, m.key): m for m in bench.metrics}
    for length in (1000, 2000):
        phase = f"prefill {length}"
        requests = next(p.requests for p in bench.phases if p.name == phase)
        lengths = [float(request.record.prompt_tokens or 0) for request in requests]
        assert found[phase, "input"].values == tuple(lengths)
        assert lengths == pytest.approx([length] * 3, rel=0.05)
        assert found[phase, "prefill"].values == pytest.approx([n / 0.02 for n in lengths])
        assert found[phase, "prefill_span"].values == pytest.approx([0.02] * 3)
        assert found[phase, "queue_span"].values == pytest.approx([0.001] * 3)
        assert min(found[phase, "ttft"].values) >= 0.03
        spans = [request.record.spans for request in requests]
        assert [span.post_prefill for span in spans if span] == pytest.approx([0.004] * 3)
    assert all(request.record.spans is None for request in bench.phases[0].requests)  # warm-ups run unwatched
    assert bench.notes == []


def test_a_server_without_times_has_no_rate() -> None:
    bench = ran(Counting(span=0.02), status=404)
    assert {metric.key for metric in bench.metrics} == {"ttft", "input"}
    (note,) = bench.notes
    assert "no prefill rate; TTFT is another thing. The server has no page /metrics (HTTP 404)" in note


def test_times_that_cannot_be_are_noted() -> None:
    bench = ran(Counting(span=9.0))
    assert any(
        "queue and prefill (9.0010 s) are longer than the client's TTFT" in note for note in bench.notes
    )


def record(prompt: int | None, cached: int | None, span: float | None, failed: bool = False) -> StreamRecord:
    return StreamRecord(
        sent=0.0,
        ended=1.0,
        arrivals=(Arrival(0.5, 1),),
        prompt_tokens=prompt,
        cached_tokens=cached,
        failure=Failure("timeout", "slow") if failed else None,
        spans=None if span is None else Spans(0.0, span, 0.0, "s"),
    )


@pytest.mark.parametrize(
    ("what", "rate"),
    [
        (
            record(63_864, 0, 4.30279),
            14_842.46,
        ),  # pennyroyal 2.4.0: 63,864 tokens in 4.302790 s, 14,842 tok/s
        (record(489_879, None, 55.8369), 8_773.39),
        (record(1000, 500, 2.0), 250.0),  # cached tokens are not computed
        (record(1000, 0, None), None),
        (record(1000, 0, 0.0), None),
        (record(None, 0, 1.0), None),
        (record(1000, 0, 1.0, failed=True), None),
    ],
)
def test_prefill_rate(what: StreamRecord, rate: float | None) -> None:
    assert prefill_rate(what) == (rate if rate is None else pytest.approx(rate, rel=1e-6))


@pytest.mark.parametrize("name", ["prefill-cold", "restore", "restore-490k", "interference", "sweep"])
def test_shipped_files_can_be_run(name: str) -> None:
    workload = read_workload(name)
    assert workload.name == name
    assert workload.changed == {}
    assert workload.sampling == {}  # greedy
