"""The client against the mock's log, in short: what the benchmark measures with many streams is right with some.

Margins are wide, for busy machines; how true the times are on a quiet one is measured by `benchmarks/client.py`.
"""

import asyncio
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from penny_bench.client import Server
from penny_bench.load import Closed, RunPlan, RunResult, latencies, measure_run, summarise_run
from penny_bench.measure import decode_rate
from penny_bench.mock import MockServer, Script, Served, read_log, token_script

MARGIN = 0.1
"""What a busy machine may add to a time, s."""


@contextmanager
def mock(log: Path, *arguments: str) -> Iterator[str]:
    """A mock in a process of its own, as a real server would be; gives its address."""
    words = [sys.executable, "-m", "penny_bench.mock", "--port", "0", "--log", str(log), *arguments]
    process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    assert process.stdout
    try:
        yield process.stdout.readline().split()[-1]
    finally:
        process.terminate()
        process.wait(30)
        process.stdout.close()


def measured(url: str, streams: int, tokens: int) -> RunResult:
    async def run() -> RunResult:
        plan = RunPlan(load=Closed(streams), requests=streams, tokens=tokens, warmups=0)
        return await measure_run(await Server.connect(url), plan)

    return asyncio.run(run())


@pytest.mark.parametrize(("streams", "per_chunk"), [(1, 1), (1, 4), (64, 1), (64, 4)])
def test_times_and_rates_are_those_of_the_server(tmp_path: Path, streams: int, per_chunk: int) -> None:
    log = tmp_path / "log"
    with mock(log, "--first", "0.2", "--interval", "0.05", "--per-chunk", str(per_chunk)) as url:
        result = measured(url, streams, 12 * per_chunk)
    records = sorted((request.record for request in result.requests), key=lambda record: record.sent)
    truth = sorted(list(read_log(log))[-streams:], key=lambda one: one.received)
    for record, one in zip(records, truth, strict=True):
        compare(record, one, result.zero, per_chunk)
    summary = summarise_run(records)
    last = max(one.events()[-1][0] for one in truth)
    assert summary.output_tokens == streams * 12 * per_chunk
    assert summary.output_rate == pytest.approx(
        summary.output_tokens / (last - truth[0].received), rel=MARGIN
    )


def compare(record: Any, one: Served, zero: float, per_chunk: int) -> None:
    """A stream's times, one by one, with those at which its events were written."""
    assert record.failure is None
    events = one.events()
    assert record.sent <= one.received - zero + 1e-4 <= record.sent + MARGIN
    assert [arrival.tokens for arrival in record.arrivals] == [per_chunk * (i + 1) for i in range(12)]
    for arrival, (written, _) in zip(record.arrivals, events, strict=True):
        assert written - zero <= arrival.t <= written - zero + MARGIN
    got = latencies(record)
    assert got is not None
    assert got.ttft == pytest.approx(events[0][0] - one.received, abs=MARGIN)
    assert got.stalls == pytest.approx([b[0] - a[0] for a, b in pairwise(events)], abs=MARGIN)
    rate = decode_rate(record)
    assert rate == pytest.approx(11 * per_chunk / (events[-1][0] - events[0][0]), rel=MARGIN)


@pytest.mark.parametrize("usage", ["final", "running"])
def test_counts_are_exact_with_1_to_16_tokens_an_event(usage: Any) -> None:
    def answer(number: int, body: dict[str, Any]) -> Script:
        return token_script(tokens=body["max_tokens"], per_chunk=1 + number % 16, interval=0.001, usage=usage)

    async def run() -> RunResult:
        async with MockServer(answer).start() as server:
            plan = RunPlan(load=Closed(16), requests=64, tokens=53, warmups=0)
            return await measure_run(await Server.connect(server.url), plan)

    records = [request.record for request in asyncio.run(run()).requests]
    assert [record.output_tokens for record in records] == [53] * 64
    events = {len(record.arrivals) for record in records}
    assert len(events) > 10  # 53 tokens came in 4, 5, ... 53 events


def test_a_thousand_streams_at_once(tmp_path: Path) -> None:
    log = tmp_path / "log"
    with mock(log, "--first", "0.5", "--interval", "0.2") as url:
        result = measured(url, 1000, 5)
    assert [request.record.failure for request in result.requests] == [None] * 1000
    records = sorted((request.record for request in result.requests), key=lambda record: record.sent)
    truth = sorted(list(read_log(log))[-1000:], key=lambda one: one.received)
    off = [
        (record.arrivals[0].t - record.sent) - (one.events()[0][0] - one.received)
        for record, one in zip(records, truth, strict=True)
    ]
    assert sorted(off)[500] < MARGIN
    assert min(off) > -1e-3
