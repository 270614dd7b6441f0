"""Rates of groups, worked by hand, and whole measurements against the mock."""

import asyncio
from typing import Any

import pytest

from penny_bench.client import Arrival, Failure, Server, StreamRecord
from penny_bench.errors import BenchError
from penny_bench.measure import DecodePlan, DecodeResult, decode_rate, group_rates, measure_decode
from penny_bench.mock import MockServer, Refusal, Script, token_script
from penny_bench.text import passages


def made(first: float, last: float, tokens: int, *between: Arrival, sent: float = 0.0) -> StreamRecord:
    return StreamRecord(
        sent=sent,
        ended=last,
        arrivals=(Arrival(first, None), *between, Arrival(last, tokens)),
        output_tokens=tokens,
    )


FAILED = StreamRecord(sent=0.0, ended=1.0, failure=Failure("http", "no"))


def test_two_equal_streams() -> None:
    # 101 tokens each, first at 1 s, last at 3 s: 100 tokens in 2 s.
    rates = group_rates([made(1, 3, 101), made(1, 3, 101)])
    assert rates.streams == (50.0, 50.0)
    assert rates.aggregate == pytest.approx(100.0)
    assert rates.window == 2.0
    assert rates.whole == pytest.approx(202 / 3)


def test_only_the_common_window_counts() -> None:
    # A: 1..3 s at 50/s. B: 2..6 s at 25/s. Together from 2 to 3 s: 50 + 25 tokens in 1 s.
    rates = group_rates([made(1, 3, 101), made(2, 6, 101, sent=0.5)])
    assert rates.streams == (50.0, 25.0)
    assert rates.aggregate == pytest.approx(75.0)
    assert rates.window == 1.0
    assert rates.whole == pytest.approx(202 / 6)


def test_running_counts_place_the_tokens() -> None:
    # A keeps no count: 1..5 s, 40 tokens after the first, 10/s. B: 1 token at 2 s, 11 at 3 s, 41 at 4 s.
    b = StreamRecord(
        sent=0, ended=4, arrivals=(Arrival(2, 1), Arrival(3, 11), Arrival(4, 41)), output_tokens=41
    )
    rates = group_rates([made(1, 5, 41), b])
    assert rates.window == 2.0  # 2..4 s
    assert rates.aggregate == pytest.approx((20 + 40) / 2)
    # A stream that ends at 3 s cuts the window there: 10 of A, 10 of B (not half of 40), 10 of C.
    assert group_rates([made(1, 5, 41), b, made(1, 3, 21)]).aggregate == pytest.approx(30 / 1)


def test_streams_one_after_the_other_have_no_aggregate() -> None:
    rates = group_rates([made(1, 2, 11), made(3, 4, 11)])
    assert rates.streams == (10.0, 10.0)
    assert (rates.aggregate, rates.window) == (None, 0.0)
    assert rates.whole == pytest.approx(22 / 4)


def test_a_failed_stream_leaves_the_group_without_rates() -> None:
    rates = group_rates([made(1, 3, 101), FAILED])
    assert rates.streams == (50.0, None)
    assert (rates.aggregate, rates.whole) == (None, None)
    assert group_rates([FAILED]).streams == (None,)


def test_a_single_stream_is_its_own_window() -> None:
    record = made(1, 3, 101)
    assert group_rates([record]).aggregate == pytest.approx(decode_rate(record))


# ---- whole measurements


def measure(answer: Any, **plan: Any) -> tuple[DecodeResult, MockServer]:
    async def run() -> tuple[DecodeResult, MockServer]:
        async with MockServer(answer).start() as mock:
            server = await Server.connect(mock.url, None, None, 30.0)
            return await measure_decode(server, DecodePlan(**plan)), mock

    return asyncio.run(run())


def test_a_plan_is_run_as_written() -> None:
    seen: list[str] = []

    def answer(number: int, body: dict[str, Any]) -> Script:
        seen.append(body["messages"][0]["content"])
        tokens = len(seen[-1]) // 2  # this server has a token for every two characters
        return token_script(tokens=body["max_tokens"], interval=0.001, prompt_tokens=tokens, usage="running")

    result, _ = measure(answer, concurrency=(1, 3), tokens=20, prompt_tokens=50, runs=2, warmups=1, seed=7)
    assert [(g.concurrency, g.warmup, len(g.records)) for g in result.groups] == [
        (1, True, 1),
        (1, False, 1),
        (1, False, 1),
        (3, True, 3),
        (3, False, 3),
        (3, False, 3),
    ]
    assert len(result.measured(3)) == 2
    assert all(r.output_tokens == 20 for g in result.groups for r in g.records)
    assert all(g.rates.aggregate is not None for g in result.groups)
    first = 1 + len(passages())  # the first line alone, then a piece of each passage
    assert len(seen) == first + 3 + 9
    assert len(set(seen)) == len(seen)
    assert all(abs(len(text) - 100) <= 2 for text in seen[first:])
    assert result.server.extensions


def test_a_server_that_refuses_extensions_is_asked_without_them() -> None:
    def answer(number: int, body: dict[str, Any]) -> Script:
        if "ignore_eos" in body:
            return Refusal(400, "unknown field ignore_eos")
        return token_script(tokens=4)

    result, mock = measure(answer, concurrency=(2,), tokens=4, runs=1, warmups=0)
    assert not result.server.extensions
    assert ["ignore_eos" in body for body in mock.bodies] == [True, True] + [False] * (
        1 + len(passages()) + 2
    )
    assert mock.bodies[-1]["stream_options"] == {"include_usage": True}


def test_nothing_can_be_measured_without_usage() -> None:
    with pytest.raises(
        BenchError, match=r"first request .* carried no usage, so its tokens cannot be counted"
    ):
        measure(lambda number, body: token_script(tokens=4, usage="none"), concurrency=(1,))


def test_an_overloaded_server_is_not_taken_for_one_that_refuses_extensions() -> None:
    with pytest.raises(BenchError, match="HTTP 503: overloaded"):
        measure(lambda number, body: Refusal(503, "overloaded") if number == 0 else token_script(tokens=4))


def test_a_refusal_of_everything_is_reported_with_its_reason() -> None:
    with pytest.raises(BenchError, match="HTTP 404: no such model"):
        measure(lambda number, body: Refusal(404, "no such model"), concurrency=(1,))


def test_later_failures_are_kept() -> None:
    def answer(number: int, body: dict[str, Any]) -> Script:
        return (
            Refusal(503, "overloaded")
            if number == 1 + len(passages())
            else token_script(tokens=4, interval=0.001)
        )

    result, _ = measure(answer, concurrency=(2,), tokens=4, runs=1, warmups=0)
    (group,) = result.groups
    kinds = [r.failure.kind if r.failure else None for r in group.records]
    assert sorted(kinds, key=str) == [None, "http"]
    assert group.rates.aggregate is None


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"tokens": 1}, "tokens is 1; give at least 2"),
        ({"runs": 0}, "runs is 0; give at least 1"),
        ({"concurrency": ()}, "numbers of at least 1"),
        ({"concurrency": (0,)}, "numbers of at least 1"),
        ({"concurrency": (2, 2)}, "give each number once"),
    ],
)
def test_plans_that_cannot_be_run(wrong: dict[str, Any], words: str) -> None:
    with pytest.raises(BenchError, match=words):
        DecodePlan(**wrong)


def test_tokens_that_came_at_once_with_the_first_are_in_no_rate() -> None:
    burst = tuple(Arrival(1.0, n) for n in range(1, 48))
    held_up = StreamRecord(sent=0.0, ended=3.0, arrivals=(*burst, Arrival(2.0, 57)), output_tokens=57)
    assert held_up.first_tokens == 47
    assert decode_rate(held_up) == 10.0
    assert group_rates([held_up]).aggregate == 10.0


def test_first_tokens_without_text_stop_nothing() -> None:
    """A server that hides the start of the reasoning: the two tokens of the first requests bring no text."""

    def answer(number: int, body: dict[str, Any]) -> Script:
        steps = token_script(tokens=body["max_tokens"], usage="final", prompt_tokens=20)
        return steps[-3:] if body["max_tokens"] == 2 else steps

    async def run() -> DecodeResult:
        async with MockServer(answer).start() as mock:
            plan = DecodePlan(concurrency=(1,), tokens=8, runs=1, warmups=0)
            return await measure_decode(await Server.connect(mock.url), plan)

    result = asyncio.run(run())
    assert {record.failure and record.failure.kind for record in result.preflight} == {"no_tokens"}
    assert result.measured(1)[0].records[0].output_tokens == 8
