"""Runs over real sockets against the mock: counts, order, errors and what is kept apart."""

import asyncio
import gc
from collections.abc import Iterator
from typing import Any

import pytest

from penny_bench.client import Server
from penny_bench.errors import BenchError
from penny_bench.load import (
    Closed,
    Constant,
    Load,
    RunPlan,
    RunResult,
    Trace,
    garbage,
    measure_run,
    parse_load,
    summarise_run,
)
from penny_bench.load.base import Slot
from penny_bench.mock import MockServer, Refusal, Script, Step, chunk, token_script
from penny_bench.text import passages

FIRST = 1 + len(passages())
"""Requests that come before the run."""


def quick(number: int, body: dict[str, Any]) -> Script:
    return token_script(tokens=body["max_tokens"], per_chunk=4, interval=0.002, usage="running")


def measured(answer: Any, load: Load, **settings: Any) -> tuple[RunResult, list[dict[str, Any]]]:
    """The result, and the bodies of the requests behind the preflight."""

    async def run() -> tuple[RunResult, list[dict[str, Any]]]:
        async with MockServer(answer).start() as mock:
            server = await Server.connect(mock.url)
            async with asyncio.timeout(60):
                result = await measure_run(server, RunPlan(load=load, **settings))
            return result, mock.bodies[FIRST:]

    return asyncio.run(run())


def test_open_run() -> None:
    result, bodies = measured(quick, Constant(100.0), requests=10, tokens=10, warmups=2, seed=7)
    assert result.complete
    assert [request.number for request in result.requests] == list(range(10))
    assert [request.scheduled for request in result.requests] == pytest.approx([i / 100 for i in range(10)])
    for request in result.requests:
        record = request.record
        assert record.failure is None
        assert record.output_tokens == 10
        assert [arrival.tokens for arrival in record.arrivals] == [4, 8, 10]
        assert record.first_byte is not None
        assert request.scheduled <= record.sent <= record.first_byte <= record.arrivals[0].t
        assert record.arrivals[-1].t <= record.ended <= result.seconds
    assert [request.phase for request in result.warmups] == ["warm-up", "warm-up"]
    for request in result.warmups:  # before the run, on its clock, with their own lengths
        record = request.record
        assert record.first_byte is not None
        assert record.sent < record.first_byte <= record.arrivals[0].t
        assert record.arrivals[0].t <= record.arrivals[-1].t <= record.ended < 0
    assert len(bodies) == 12
    assert len({body["messages"][0]["content"] for body in bodies}) == 12  # no prompt twice
    assert result.own.lateness is not None
    assert result.own.lateness.n == 10
    assert result.own.lateness.minimum >= 0
    assert result.own.cpu_seconds > 0


def test_closed_run_with_many_streams_at_once() -> None:
    streams, came = 200, 0

    class WhenAllAreOpen(list[Step]):
        """No stream gets a token before all are open; a client that held some back would never end."""

        def __iter__(self) -> Iterator[Step]:
            while came < streams:
                yield Step(0.05, b": wait\n\n")
            yield from super().__iter__()

    def patient(number: int, body: dict[str, Any]) -> Script:
        nonlocal came
        if number < FIRST:
            return quick(number, body)
        came += 1
        return WhenAllAreOpen(token_script(tokens=2))  # type: ignore[arg-type,return-value]

    result, _ = measured(patient, Closed(streams), requests=streams, tokens=2, warmups=0)
    got = summarise_run([request.record for request in result.requests])
    assert (got.succeeded, got.output_tokens) == (streams, 2 * streams)
    assert result.own.lateness is None
    assert result.own.loop_lag is not None


def test_duration_stops_new_requests_and_follows_open_ones() -> None:
    def slow(number: int, body: dict[str, Any]) -> Script:
        return token_script(tokens=2, first=0.3 if number >= FIRST else 0.0)

    result, bodies = measured(slow, Constant(20.0), duration=0.22, warmups=0)
    assert len(bodies) == len(result.requests) == 5  # at 0, 50, 100, 150 and 200 ms
    assert all(request.record.output_tokens == 2 for request in result.requests)


def test_trace_asks_for_its_own_lengths() -> None:
    load = Trace("x", (Slot(0.0, None, 3), Slot(0.01, 900, None)))
    result, bodies = measured(quick, load, tokens=5, warmups=0)
    assert [body["max_tokens"] for body in bodies] == [3, 5]
    assert [request.prompt_tokens for request in result.requests] == [128, 900]
    short, long = (len(body["messages"][0]["content"]) for body in bodies)
    assert long > 3 * short


def test_errors_are_kept_with_their_kind() -> None:
    def sometimes(number: int, body: dict[str, Any]) -> Script:
        broken: dict[int, Script] = {
            FIRST + 1: Refusal(429, "slow down"),
            FIRST + 2: [Step(0, b"data: {\n\n")],
        }
        return broken.get(number) or quick(number, body)

    result, _ = measured(sometimes, Closed(1), requests=4, tokens=4, warmups=0)
    failures = [request.record.failure for request in result.requests]
    assert [failure and failure.kind for failure in failures] == [None, "http", "protocol", None]
    got = summarise_run([request.record for request in result.requests])
    assert (got.succeeded, got.errors, got.output_tokens) == (2, {"http": 1, "protocol": 1}, 8)


@pytest.mark.parametrize(
    ("usage", "per_chunk", "known"), [("final", 1, 7), ("running", 3, 5), ("final", 3, None)]
)
def test_itl_over_real_streams(usage: Any, per_chunk: int, known: int | None) -> None:
    def one(number: int, body: dict[str, Any]) -> Script:
        return token_script(tokens=8, per_chunk=per_chunk, interval=0.01, usage=usage)

    result, _ = measured(one, Closed(1), requests=1, tokens=8, warmups=0)
    itl = summarise_run([result.requests[0].record]).itl
    assert (itl and itl.n) == known  # of 8 tokens, those of the first event have none


def test_reasoning_and_content_are_told_apart() -> None:
    def think(number: int, body: dict[str, Any]) -> Script:
        thoughts = token_script(tokens=2, interval=0.01, kind="reasoning_content")[:-3]
        return [*thoughts, Step(0.05, chunk({"content": "4"})), *token_script(tokens=3)[-3:]]

    result, _ = measured(think, Closed(1), requests=1, tokens=3, warmups=0)
    record = result.requests[0].record
    assert record.first_reasoning == record.arrivals[0].t
    assert record.first_answer == record.arrivals[2].t
    assert record.ttft is not None
    assert record.time_to_answer is not None
    assert record.time_to_answer - record.ttft >= 0.05


def test_garbage_is_collected_by_hand_while_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    during: list[bool] = []
    monkeypatch.setattr(garbage, "EVERY", 2)
    monkeypatch.setattr(gc, "collect", lambda: asked.append(len(during)))

    def watched(number: int, body: dict[str, Any]) -> Script:
        if number >= FIRST:
            during.append(gc.isenabled())
        return quick(number, body)

    measured(watched, Closed(1), requests=5, tokens=2, warmups=0)
    assert during == [False] * 5
    assert asked == [0, 2, 4]  # once before, then after every second request
    assert gc.isenabled()


def test_one_prompt_for_all_on_request() -> None:
    _, bodies = measured(quick, Closed(1), requests=3, tokens=2, warmups=1, same_prompt=True)
    assert len({body["messages"][0]["content"] for body in bodies}) == 1


def test_an_interrupted_run_keeps_what_it_has() -> None:
    def stuck(number: int, body: dict[str, Any]) -> Script:
        return token_script(tokens=4, interval=30.0) if number == FIRST + 2 else quick(number, body)

    async def run() -> RunResult:
        async with MockServer(stuck).start() as mock:
            server = await Server.connect(mock.url)
            plan = RunPlan(load=Closed(1), requests=9, tokens=4, warmups=0)
            task = asyncio.create_task(measure_run(server, plan))
            while len(mock.sent) < FIRST + 3 or len(mock.sent[FIRST + 2]) < 2:
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.1)  # let the first token arrive
            task.cancel()
            return await task

    result = asyncio.run(run())
    assert not result.complete
    failures = [request.record.failure for request in result.requests]
    assert [failure and failure.kind for failure in failures] == [None, None, "interrupted"]
    assert len(result.requests[2].record.arrivals) == 1


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({}, "This load has no end; limit it with --requests or --duration"),
        ({"requests": 0}, "requests is 0; give at least 1"),
        ({"duration": -1.0}, "duration is -1; give seconds above 0"),
        ({"requests": 1, "tokens": 0}, "tokens is 0"),
        ({"requests": 1, "cached_limit": -1}, "cached_limit is -1"),
    ],
)
def test_plans_that_are_none(settings: dict[str, Any], words: str) -> None:
    with pytest.raises(BenchError) as caught:
        RunPlan(load=parse_load("poisson:rate=1"), **settings)
    assert words in str(caught.value)
