"""Decode beside a long prefill: windows by hand, and a mock whose streams stand still when the prompt comes."""

import asyncio
from collections.abc import Iterator
from typing import Any

import pytest

from penny_bench.client import Arrival, Server, StreamRecord, http_client
from penny_bench.measure import new_clock, preflight
from penny_bench.mock import Cut, MockServer, Refusal, Script, Step, chunk, token_script
from penny_bench.workload import Bench
from penny_bench.workload.kinds.interference import KIND, Settings
from penny_bench.workload.windows import all_decoding, three_windows


def stream(*arrivals: tuple[float, int | None], output: int | None = None) -> StreamRecord:
    return StreamRecord(
        sent=0.0,
        ended=arrivals[-1][0],
        arrivals=tuple(Arrival(t, n) for t, n in arrivals),
        output_tokens=output or arrivals[-1][1],
    )


def test_windows_by_hand() -> None:
    # Events at 1, 2, 3 | happens at 3.5 | 7 | over at 8 | 9, 10; another stream stands still from 3 to 9.
    first = stream((1, 1), (2, 3), (3, 5), (7, 6), (9, 8), (10, 12))
    second = stream((1, 1), (3, 2), (9, 4), (10, 5))
    before, during, after = three_windows([first, second], 1.0, 3.5, 8.0, 10.0)
    assert (before.start, before.end, after.start, after.end) == (1.0, 3.5, 8.0, 10.0)
    assert sorted(before.pauses) == [1.0, 1.0, 2.0]
    assert sorted(during.pauses) == [
        2.0,
        4.0,
        6.0,
    ]  # 7 to 9 begins in it, 3 to 7 and 3 to 9 reach over its start
    assert sorted(after.pauses) == [1.0, 1.0]
    # after the first token at 1: 2 + 2 tokens and 1; 1 token; 2 + 4 and 2 + 1
    assert (before.tokens, during.tokens, after.tokens) == (5.0, 1.0, 9.0)
    assert before.rate == 5 / 2.5
    assert during.rate == 1 / 4.5
    assert after.distribution is not None
    assert after.distribution.maximum == 1.0


def test_windows_of_streams_without_running_counts() -> None:
    untold = stream((1, None), (2, None), (4, None), (6, 20))  # 20 tokens in 4 events, spread evenly
    before, during, after = three_windows([untold], 1.0, 3.0, 5.0, 6.0)
    assert (before.tokens, during.tokens, after.tokens) == (5.0, 5.0, 5.0)
    assert (before.pauses, during.pauses, after.pauses) == ((1.0,), (2.0, 2.0), ())
    assert after.distribution is None
    empty, _, _ = three_windows([untold], 1.0, 1.0, 5.0, 6.0)
    assert empty.rate is None


def test_when_all_decode() -> None:
    one = [stream((1, 1), (4, 2)), stream((5, 1), (9, 2))]  # a user of two requests
    two = [stream((2, 1), (8, 2))]
    assert all_decoding([one, two]) == (2, 8)
    assert all_decoding([one, []]) is None
    assert all_decoding([[stream((1, 1), (2, 2))], [stream((3, 1), (4, 2))]]) is None


class Server3:
    """Streams with a token every 10 ms, that stand still once for 0.4 s when the long prompt has come."""

    LONG = 5000

    def __init__(self, refuse: bool = False, first: float = 0.01) -> None:
        self.long = 0
        self.refuse = refuse
        self.first = first

    def answer(self, number: int, body: dict[str, Any]) -> Script:
        length = len(body["messages"][0]["content"])
        if length > self.LONG * 0.8:
            self.long += 1
            if self.refuse and self.long > 1:
                return Refusal(503, "full")
            return token_script(tokens=body["max_tokens"], first=0.3, prompt_tokens=length, usage="running")
        server = self

        class Stream(list[Step | Cut]):
            def __iter__(self) -> Iterator[Step | Cut]:
                seen, tokens = server.long, body["max_tokens"]
                for i in range(1, tokens + 1):
                    stands = server.long > seen
                    seen = server.long
                    wait = server.first if i == 1 else 0.4 if stands else 0.01
                    yield Step(wait, chunk({"content": " a"}, completion_tokens=i))
                usage = {"prompt_tokens": length, "completion_tokens": tokens}
                yield Step(0, {"choices": [], "usage": usage})

        return Stream()


def ran(server3: Server3, **settings: Any) -> Bench:
    async def run() -> Bench:
        async with MockServer(server3.answer).start() as mock:
            server, _, gauge = await preflight(await Server.connect(mock.url), 3)
            async with http_client(server) as client:
                bench = Bench(server, client, new_clock(), gauge, 3, {})
                chosen = {
                    "prompt_tokens": server3.LONG,
                    "stream_prompt_tokens": 300,
                    "tokens": 60,
                    "lead": 0.4,
                    "lag": 0.3,
                }
                async with asyncio.timeout(60):
                    await KIND.run(bench, Settings(**{**chosen, **settings}))
                return bench

    return asyncio.run(run())


def test_streams_that_stand_still() -> None:
    bench = ran(Server3(), runs=2)
    found = {(m.phase, m.key): m for m in bench.metrics}
    together = {key: m for (phase, key), m in found.items() if phase == "together"}
    assert len(together["rate_during"].values) == 2
    assert len(found["alone", "prefill_ttft"].values) == 2
    assert min(together["pause_max_during"].values) > 0.35  # of 0.4, but the event before it may come late
    # Of 0.01: after an event that comes late the next one's pause is short.
    assert 0.005 <= together["pause_p50_before"].value < 0.2
    assert 0.005 <= together["pause_p50_after"].value < 0.2
    assert together["rate_kept"].value < 50  # at most one token of each in 0.3 s, before 30
    assert together["rate_before"].value <= 330  # three of 100 a second, in a window of some events
    assert together["prefill_ttft"].value >= 0.3
    slower = sum(together["prefill_ttft"].values) / sum(found["alone", "prefill_ttft"].values)
    assert together["prefill_slowdown"].value == pytest.approx(slower)
    requests = next(phase.requests for phase in bench.phases if phase.name == "together")
    cases = {request.case for request in requests}
    assert cases == {"decode 1", "decode 2", "decode 3", "prefill"}
    turns = [request.turn for request in requests if request.case == "decode 1"]
    assert turns[:2] == [0, 1]  # 60 tokens last 0.6 s, the run 1 s: a user asks again
    assert all(request.record.failure is None for request in requests)
    (note,) = bench.notes
    assert "no server times in company: The server has no page /metrics (HTTP 404)" in note


def test_what_cannot_be_judged_is_in_no_number() -> None:
    bench = ran(Server3(refuse=True))
    assert any("failed, so it is in no number" in note for note in bench.notes)
    assert not any(m.key.startswith(("rate_", "pause_")) for m in bench.metrics)
    # The streams' first tokens come seconds after the long prompt was sent, on any machine.
    bench = ran(Server3(first=4.0), lead=0.0, alone=False)
    assert any("make `lead` longer" in note for note in bench.notes)
    assert not any(m.key.startswith(("rate_", "pause_", "prefill_slowdown")) for m in bench.metrics)
