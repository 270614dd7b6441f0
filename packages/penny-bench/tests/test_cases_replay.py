"""Replay: scripted and recorded sessions, their histories, and the numbers of runs with known timelines."""

from __future__ import annotations

import asyncio
import hashlib
import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from penny_bench.cases.replay import Session, Turn, cut, read_sessions, scripted_session, turn_sizes
from penny_bench.client import Server
from penny_bench.errors import BenchError
from penny_bench.mock import Refusal, Script, Step, chunk, running
from penny_bench.text import Gauge, Segment, segments
from penny_bench.workload import WorkloadResult, measure_workload, read_workload

# ---- sessions


def test_histories_hold_the_script_and_not_the_answers() -> None:
    one, two = {"role": "user", "content": "1"}, {"role": "user", "content": "2"}
    said = {"role": "assistant", "content": "a"}
    session = Session("s", (Turn((one,), said), Turn((two,), None)))
    assert list(session.histories()) == [[one], [one, said, two]]


def test_sizes_add_up_and_differ() -> None:
    sizes = turn_sizes(350_000, 24, Random(1))
    assert sum(sizes) == pytest.approx(350_000)
    assert min(sizes) > 0
    assert max(sizes) > 4 * min(sizes)


def test_cutting_by_tokens() -> None:
    parts = [Segment("a" * 100, 0.5), Segment("b" * 10, 5.0), Segment("c" * 100, 0.5)]
    # 150 tokens: 25 of the a; 25 of the a and 25 of the b; the rest.
    assert cut(parts, [25, 50, 75]) == ["a" * 50, "a" * 50 + "b" * 5, "b" * 5 + "c" * 100]
    assert cut(parts, [1000]) == ["a" * 100 + "b" * 10 + "c" * 100]
    whole = segments(20_000, 1, 1, Gauge(0, (0.25, 0.3, 0.3, 0.3, 0.4, 0.9, 0.9, 0.3)))
    text = "".join(part.text for part in whole)
    assert "".join(cut(whole, turn_sizes(20_000, 9, Random(2)))) == text[: len(text)]


@pytest.mark.parametrize("with_tools", [True, False])
def test_a_scripted_session_is_a_conversation_that_servers_take(with_tools: bool) -> None:
    results = [f"result {number}" for number in range(10)]
    session = scripted_session("s", "No. 1.\n\n", results, Random(3), with_tools)
    histories = list(session.histories())
    assert len(histories) == 10
    assert bool(session.tools) is with_tools
    for number, history in enumerate(histories):
        assert history[0]["content"].startswith("No. 1.\n\n")
        assert [m["role"] for m in history].count("system") == 1
        assert history[-1]["role"] == ("tool" if with_tools else "user")
        assert f"result {number}" in history[-1]["content"]
        if number:
            assert (
                history[: len(histories[number - 1])] == histories[number - 1]
            )  # a prefix that a cache knows
        pending: list[str] = []
        for before, message in zip([None, *history], history, strict=False):
            role = message["role"]
            if role == "assistant":
                assert before is not None
                assert before["role"] in ("user", "tool")  # never two answers in a row
                pending = [call["id"] for call in message.get("tool_calls", [])]
                for call in message.get("tool_calls", []):
                    arguments = json.loads(call["function"]["arguments"])
                    assert list(arguments) == ["box", "first", "last"]
                    assert 1 <= arguments["first"] <= arguments["last"]
            elif role == "tool":
                assert message["tool_call_id"] == pending.pop()
            else:
                assert not pending  # every call was answered


# ---- recordings

ASK, ANSWER = {"role": "user", "content": "go"}, {"role": "assistant", "content": "done"}
CALL = {
    "role": "assistant",
    "content": None,
    "tool_calls": [{"id": "c", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
}
TOOL = {"role": "tool", "tool_call_id": "c", "content": "42"}


def written(path: Path, *lines: Any) -> Path:
    path.write_text("\n".join(line if isinstance(line, str) else json.dumps(line) for line in lines))
    return path


def test_a_recording_of_messages(tmp_path: Path) -> None:
    path = written(tmp_path / "r.jsonl", ASK, CALL, TOOL, ANSWER, "", {"role": "user", "content": "and?"})
    (session,) = read_sessions(path)
    assert list(session.histories()) == [
        [ASK],
        [ASK, CALL, TOOL],
        [ASK, CALL, TOOL, ANSWER, {"role": "user", "content": "and?"}],
    ]


def test_a_recording_of_sessions(tmp_path: Path) -> None:
    tools = [{"type": "function", "function": {"name": "f", "parameters": {}}}]
    path = written(
        tmp_path / "r.jsonl",
        {"messages": [ASK, ANSWER], "tools": tools},
        {"messages": [ASK, ANSWER, ANSWER, ASK]},
    )
    one, two = read_sessions(path)
    assert (one.name, one.tools) == ("session 1", tuple(tools))
    assert [len(history) for history in one.histories()] == [1]
    assert [len(history) for history in two.histories()] == [1, 4]
    assert two.tools == ()


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ([], "is empty"),
        (["{"], "Line 1 of .* is not JSON"),
        ([ASK, "[1]"], "Line 2 of .* is list, not an object"),
        ([{"role": "robot"}], "Line 1 of .* has a message with the role 'robot'; expected one of system,"),
        ([ANSWER, ASK], "begins with an answer"),
        ([{"messages": 5}], "Line 1 of .* no list"),
        ([{"messages": []}], "no message that could be answered"),
        ([ASK, {"messages": [ASK]}], "Line 2 of .* role None"),
    ],
)
def test_wrong_recordings_are_told(tmp_path: Path, lines: list[Any], words: str) -> None:
    with pytest.raises(BenchError, match=words):
        read_sessions(written(tmp_path / "r.jsonl", *lines))


def test_a_missing_recording_is_told(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match="cannot be read"):
        read_sessions(tmp_path / "none.jsonl")


# ---- the kind


def measured(answer: Any, **settings: Any) -> tuple[WorkloadResult, list[dict[str, Any]]]:
    workload = read_workload("agentic", settings)

    async def run(url: str) -> WorkloadResult:
        return await measure_workload(await Server.connect(url), workload, 7)

    with running(answer) as mock:
        result = asyncio.run(run(mock.url))
    return result, [body for body in mock.bodies if body["max_tokens"] > 2]


def counted(body: dict[str, Any]) -> int:
    """Tokens of a prompt on a server with four characters a token and ten tokens around each message."""
    texts = [m.get("content") or "" for m in body["messages"]]
    return sum(10 + len(text) // 4 for text in texts)


def caching(number: int, body: dict[str, Any]) -> Script:
    """9 tokens in 50 ms steps; all but 500 tokens of the prompt are cached; prefill takes 1 ms a token."""
    prompt = counted(body)
    if body["max_tokens"] == 2:
        return [*_tokens(2, 0.0), *_end(prompt, 2, 0)]
    return [*_tokens(9, 0.05), *_end(prompt, 9, max(0, prompt - 500), prompt_ms=500.0)]


def _tokens(count: int, pause: float) -> list[Step]:
    return [
        Step(pause if i else 0.0, chunk({"content": " tok"}, completion_tokens=i + 1)) for i in range(count)
    ]


def _end(prompt: int, output: int, cached: int, **timings: float) -> list[Step]:
    usage = {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": prompt + output,
        "prompt_tokens_details": {"cached_tokens": cached},
    }
    told = {"timings": {"predicted_ms": 80.0, **timings}} if timings else {}
    return [
        Step(0.0, chunk(finish="stop", completion_tokens=output)),
        Step(0.0, {"choices": [], "usage": usage, **told}),
        Step(0.0, b"data: [DONE]\n\n"),
    ]


def test_a_scripted_run() -> None:
    result, bodies = measured(caching, context=6000, turns=6, tokens=32, least=9, buckets=[2000, 4000])
    assert len(bodies) == 6
    assert result.phases[0].cached
    sizes = [counted(body) for body in bodies]
    assert sizes == sorted(sizes)
    assert 5400 < sizes[-1] < 6600
    assert [(r.case, r.turn) for r in result.phases[0].requests] == [("session 1", turn) for turn in range(6)]
    assert all(body["tools"] for body in bodies)
    assert bodies[0]["temperature"] == 0.8
    assert "tok tok" not in json.dumps(bodies[-1]["messages"])  # no answer of the server is in the history
    found = {metric.key: metric for metric in result.metrics}
    assert found["uncached"].value == 3000 + min(0, sizes[0] - 500)
    hits = sum(max(0, size - 500) for size in sizes)
    assert found["cached"].value == pytest.approx(100 * hits / sum(sizes))
    assert found["prefill"].value == pytest.approx(1000.0)  # 500 tokens in 500 ms
    assert found["prefill_weighted"].value == pytest.approx(1000.0, rel=0.2)
    assert found["output"].value == 54
    assert found["context"].value == sizes[-1]
    # 8 tokens behind the first, in 400 ms: 20 tokens/s, each turn and all together.
    assert found["weighted"].value == pytest.approx(20, rel=0.2)
    assert found["stream"].value == pytest.approx(20, rel=0.2)
    n = [sum(low <= size < high for size in sizes) for low, high in ((0, 2000), (2000, 4000), (4000, 10**9))]
    assert [
        len(found[f"stream_{low}"].values) if f"stream_{low}" in found else 0 for low in (0, 2000, 4000)
    ] == n
    assert found["stream_4000"].label == "decode at 4K and more, each turn"
    assert found["stream_0"].label == "decode at 0K to 2K, each turn"


def test_weighted_is_not_the_median() -> None:
    def answer(number: int, body: dict[str, Any]) -> Script:
        if body["max_tokens"] == 2:
            return [*_tokens(2, 0.0), *_end(9, 2, 0)]
        slow = sum(m["role"] == "tool" for m in body["messages"]) == 3
        return [*_tokens(9 if slow else 3, 0.4 if slow else 0.2), *_end(100, 9 if slow else 3, 0)]

    result, _ = measured(answer, context=2000, turns=3, tokens=32, least=2)
    found = {metric.key: metric.value for metric in result.metrics}
    # Each turn: 5, 5 and 2.5 tokens/s; by tokens (2 + 2 + 8) / (0.4 + 0.4 + 3.2) = 3.
    assert found["stream"] == pytest.approx(5, rel=0.25)
    assert found["weighted"] == pytest.approx(3, rel=0.25)


def test_sessions_at_once_differ() -> None:
    result, bodies = measured(caching, context=2000, turns=2, sessions=3, tools=False, tokens=16)
    assert len(bodies) == 6
    assert len({body["messages"][0]["content"] for body in bodies}) == 3
    assert result.phases[0].streams == 3
    assert not any("tools" in body for body in bodies)


def test_a_recorded_run(tmp_path: Path) -> None:
    path = written(tmp_path / "mine.jsonl", ASK, CALL, TOOL, ANSWER)
    result, bodies = measured(caching, file=str(path), tokens=16)
    assert [body["messages"] for body in bodies] == [[ASK], [ASK, CALL, TOOL]]
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    assert any("mine.jsonl" in note and digest in note for note in result.notes)
    assert not any(str(tmp_path) in note for note in result.notes)


def test_a_session_ends_where_the_server_takes_no_more() -> None:
    def answer(number: int, body: dict[str, Any]) -> Script:
        if counted(body) > 3000:
            return Refusal(400, "The input is longer than the context.")
        return caching(number, body)

    result, bodies = measured(answer, context=9000, turns=8, tokens=16, least=9)
    failed = [request for request in result.phases[0].requests if request.record.failure]
    assert len(failed) == 1
    assert len(bodies) < 8
    assert any("turns before its end" in note and "longer than the context" in note for note in result.notes)
    assert {metric.key for metric in result.metrics} >= {"stream", "weighted", "cached"}


def test_short_answers_have_no_decode_rate() -> None:
    result, _ = measured(caching, context=1500, turns=2, tokens=16, least=10)
    assert not {"stream", "weighted"} & {metric.key for metric in result.metrics}
    assert any("2 of 2 answers have fewer than 10 tokens" in note for note in result.notes)
