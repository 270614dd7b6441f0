"""The client: events from bytes, records from events, and real sockets against the mock."""

import asyncio
import json
import time
from typing import Any

import httpx
import pytest

from penny_bench.client import (
    Arrival,
    CachedTokens,
    EventDecoder,
    Reply,
    Server,
    Spans,
    Speculation,
    StreamRecord,
    Timeline,
    ToolCall,
    http_client,
    stream,
)
from penny_bench.errors import BenchError
from penny_bench.measure import decode_rate
from penny_bench.mock import Cut, MockServer, Refusal, Script, Step, chunk, token_script

# ---- events from bytes

WIRE = (
    'data: {"a": "é"}\n\n: a comment\n\nevent: x\r\ndata: one\r\ndata:two\r\n\r\n'
    "id: 7\n\ndata: [DONE]\n\ndata: unfinished\n"
)
EVENTS = ['{"a": "é"}', "one\ntwo", "[DONE]"]


@pytest.mark.parametrize("size", [1, 2, 3, 7, 1000])
def test_events_do_not_depend_on_how_bytes_are_cut(size: int) -> None:
    decoder, data = EventDecoder(), WIRE.encode()
    events: list[str] = []
    for i in range(0, len(data), size):
        events += decoder.feed(data[i : i + size])
    assert events == EVENTS


# ---- records from events


def record(*events: dict[str, Any], end: float = 9.0) -> StreamRecord:
    """Feed events as the cases write them: `t` beside `delta`, `finish_reason`, `usage` or `choices`."""
    timeline = Timeline(sent=0.0)
    for event in events:
        payload = dict(event)
        t = payload.pop("t")
        if "delta" in payload:
            finish = payload.pop("finish_reason", None)
            payload["choices"] = [{"index": 0, "delta": payload.pop("delta"), "finish_reason": finish}]
        timeline.event(t, payload)
    return timeline.record(end)


def test_total_beside_the_finish_reason_is_no_running_count() -> None:
    got = record(
        {"t": 1.0, "delta": {"content": "a"}},
        {"t": 2.0, "delta": {"content": "b"}},
        {"t": 3.0, "delta": {}, "finish_reason": "length", "usage": {"completion_tokens": 5}},
    )
    assert got.first_tokens == 1
    assert decode_rate(got) == pytest.approx(
        4 / 2.0
    )  # up to the finish: tokens without text may have come last


def test_first_event_with_several_tokens_is_taken_off_where_the_server_counts() -> None:
    got = record(
        {"t": 1.0, "delta": {"content": "a"}, "usage": {"completion_tokens": 4}},
        {"t": 2.0, "delta": {"content": "b"}, "usage": {"completion_tokens": 8}},
        {"t": 2.1, "delta": {}, "finish_reason": "length", "usage": {"completion_tokens": 8}},
        {"t": 2.2, "choices": [], "usage": {"completion_tokens": 8}},
    )
    assert decode_rate(got) == pytest.approx(4 / 1.0)


def test_tokens_without_text_at_the_end_count_up_to_the_finish() -> None:
    got = record(
        {"t": 1.0, "delta": {"content": "a"}, "usage": {"completion_tokens": 1}},
        {"t": 2.0, "delta": {}, "finish_reason": "length"},
        {"t": 2.1, "choices": [], "usage": {"completion_tokens": 11}},
    )
    assert got.arrivals[-1] == Arrival(2.0, 11)
    assert decode_rate(got) == pytest.approx(10 / 1.0)


def test_everything_in_one_event_has_no_rate() -> None:
    got = record(
        {"t": 1.0, "delta": {"content": "abc"}, "finish_reason": "stop", "usage": {"completion_tokens": 3}}
    )
    assert (got.failure, got.ttft, decode_rate(got)) == (None, 1.0, None)


@pytest.mark.parametrize(
    ("events", "kind"),
    [
        ([{"t": 1.0, "delta": {"content": "a"}, "usage": {"completion_tokens": 1}}], "protocol"),
        ([{"t": 1.0, "choices": [], "usage": {"completion_tokens": 3}}], "no_tokens"),
        ([], "protocol"),
    ],
)
def test_streams_that_do_not_count(events: list[dict[str, Any]], kind: str) -> None:
    got = record(*events)
    assert got.failure is not None
    assert got.failure.kind == kind


# ---- over real sockets


def ask(script: Script, timeout: float = 30.0, tokens: int = 8) -> tuple[StreamRecord, MockServer, float]:
    """One request against a mock; the record, the mock, and the zero of the record's clock."""

    async def run() -> tuple[StreamRecord, MockServer, float]:
        async with MockServer(lambda number, body: script).start() as mock:
            server = await Server.connect(mock.url, None, None, timeout)
            async with http_client(server) as client:
                zero = time.perf_counter()
                got = await stream(
                    client, server, server.body("hello", tokens), lambda: time.perf_counter() - zero
                )
                return got, mock, zero

    return asyncio.run(run())


@pytest.mark.parametrize("per_chunk", [1, 3, 16])
@pytest.mark.parametrize("kind", ["content", "reasoning_content"])
@pytest.mark.parametrize("usage", ["final", "running"])
def test_counts_are_exact_and_times_follow_the_server(per_chunk: int, kind: Any, usage: Any) -> None:
    script = token_script(tokens=48, per_chunk=per_chunk, first=0.05, interval=0.02, usage=usage, kind=kind)
    got, mock, zero = ask(script)
    assert got.failure is None
    assert (got.output_tokens, got.prompt_tokens, got.finish_reason) == (48, 16, "length")
    sent = [t - zero for t in mock.sent[0]]
    first, last = sent[1], sent[48 // per_chunk]  # step 0 is the role, without a token
    # A token is never seen before it was sent. The margin is for a busy machine.
    assert 0 <= got.arrivals[0].t - first + 1e-3 < 0.25
    assert 0 <= got.arrivals[-1].t - last + 1e-3 < 0.25
    # A busy reader gets several events at one moment: they count as the first together.
    together = sum(arrival.t == got.arrivals[0].t for arrival in got.arrivals)
    assert got.first_tokens == (per_chunk * together if usage == "running" else 1)
    assert (got.time_to_answer is None) == (kind == "reasoning_content")
    assert got.ttft is not None
    assert got.ttft >= 0.05


def test_request_asks_for_usage_and_greedy_tokens() -> None:
    _, mock, _ = ask(token_script(tokens=8))
    assert mock.bodies == [
        {
            "model": "mock",
            "messages": [{"role": "user", "content": "hello"}],
            "max_tokens": 8,
            "temperature": 0,
            "stream": True,
            "stream_options": {"include_usage": True, "continuous_usage_stats": True},
            "ignore_eos": True,
            "return_cached_tokens_details": True,
            "return_spec_tokens_details": True,
        }
    ]


@pytest.mark.parametrize(
    ("script", "kind", "words"),
    [
        (Refusal(429, "slow down"), "http", "The server answered with HTTP 429: slow down"),
        (token_script(tokens=4, usage="none"), "no_usage", "cannot be counted"),
        ([*token_script(tokens=4)[:3], Cut()], "connection", "The connection failed"),
        (token_script(tokens=4)[:3], "protocol", "cut off"),
        ([Step(0, b"data: {nonsense\n\n")], "protocol", "malformed event"),
        ([Step(0, b"data: \xff\n\n")], "protocol", "malformed event"),
        ([Step(0, b"data: 3\n\n")], "protocol", "no JSON object"),
        ([Step(0, chunk({"content": "a"})), Step(0, {"error": {"message": "boom"}})], "server", "boom"),
    ],
)
def test_failures_are_kept_with_their_reason(script: Script, kind: str, words: str) -> None:
    got, _, _ = ask(script)
    assert got.failure is not None
    assert got.failure.kind == kind
    assert words in got.failure.message
    assert got.ttft is None


def test_silence_is_a_failure() -> None:
    got, _, _ = ask(token_script(tokens=4, interval=5.0), timeout=0.3)
    assert got.failure is not None
    assert got.failure.kind == "timeout"


def test_events_may_share_one_packet_or_be_split() -> None:
    wire = b"".join(step.encode() for step in token_script(tokens=5) if isinstance(step, Step))
    together, _, _ = ask([Step(0, wire)])
    split, _, _ = ask([Step(0.002, wire[i : i + 40]) for i in range(0, len(wire), 40)])
    assert together.output_tokens == split.output_tokens == 5
    assert (
        len(split.arrivals) == len(together.arrivals) == 6
    )  # five events with text, and the end of the choice


# ---- finding the server


def connect(url: str, model: str | None = None) -> Server:
    return asyncio.run(Server.connect(url, model, None, 5.0))


@pytest.mark.parametrize("url", ["localhost:8000", "ftp://x", "http://", ""])
def test_addresses_that_are_none(url: str) -> None:
    with pytest.raises(BenchError, match="is no address of a server"):
        connect(url)


def test_nobody_there() -> None:
    with pytest.raises(BenchError, match=r"No server answers at http://127\.0\.0\.1:9/v1"):
        connect("http://127.0.0.1:9")


def test_model_and_path_may_be_given() -> None:
    server = connect("http://127.0.0.1:9/api/v3/", model="m")
    assert (server.url, server.model) == ("http://127.0.0.1:9/api/v3", "m")


def test_the_api_key_is_sent() -> None:
    server = Server(url="http://x", api_key="secret")
    assert server.headers() == {"Authorization": "Bearer secret"}
    assert "secret" not in json.dumps(server.body("p", 1))


def test_a_server_elsewhere_may_be_behind_a_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9")
    assert http_client(Server(url="http://127.0.0.1:8/v1"))._mounts == {}
    proxied = http_client(Server(url="http://example.org/v1"))._mounts
    assert any(isinstance(transport, httpx.AsyncHTTPTransport) for transport in proxied.values())


def test_what_sglang_tells_beyond_the_protocol() -> None:
    timeline = Timeline(sent=0.0, keep_reply=True)
    timeline.event(0.1, chunk({"reasoning_content": "Let "}))
    timeline.event(0.2, chunk({"reasoning_content": "me."}))
    timeline.event(0.3, chunk({"content": "I look."}))
    parts = [
        {"index": 1, "id": "b", "function": {"name": "ls", "arguments": ""}},
        {"index": 0, "id": "a", "function": {"name": "cat", "arguments": '{"f"'}},
        {"index": 0, "function": {"arguments": ": 1}"}},
    ]
    for part in parts:
        timeline.event(0.4, chunk({"tool_calls": [part]}))
    timeline.event(0.5, chunk(finish="tool_calls"))
    details = {"spec_verify_ct": 4, "spec_num_correct_drafts": 6, "spec_num_proposed_drafts": 12}
    timeline.event(
        0.6,
        {
            "choices": [],
            "sglext": {
                "cached_tokens_details": {"device": 64, "host": 128, "storage": 256},
                "spec_tokens_details": {**details, "spec_correct_drafts_histogram": [1, 1, 1, 1]},
            },
        },
    )
    timeline.event(0.6, {"choices": [], "usage": {"prompt_tokens": 500, "completion_tokens": 10}})
    record = timeline.record(0.7)
    assert record.failure is None
    assert record.reply == Reply(
        "I look.", "Let me.", (ToolCall("cat", '{"f": 1}', "a"), ToolCall("ls", "", "b"))
    )
    assert record.cached == CachedTokens(device=64, host=128, storage=256)
    assert record.speculation == Speculation(4, 6, 12, (1, 1, 1, 1))
    assert record.speculation.acceptance_length == 2.5


def test_what_llama_cpp_tells_beyond_the_protocol() -> None:
    timeline = Timeline(sent=0.0)
    timeline.event(0.1, chunk({"content": "a"}))
    timings = {"prompt_n": 100, "prompt_ms": 250.0, "predicted_ms": 500.0}
    usage = {"prompt_tokens": 100, "completion_tokens": 1}
    timeline.event(0.2, {**chunk(finish="stop"), "usage": usage, "timings": timings})
    record = timeline.record(0.2)
    assert record.spans == Spans(None, 0.25, 0.5, "llama.cpp timings")
    assert record.reply is None


@pytest.mark.parametrize(
    "told",
    [
        {"sglext": None},
        {"sglext": {"spec_tokens_details": {"spec_verify_ct": 0}}},
        {"timings": {"prompt_ms": "a"}},
    ],
)
def test_what_a_server_does_not_tell_is_none(told: dict) -> None:
    timeline = Timeline(sent=0.0)
    timeline.event(0.1, {**chunk({"content": "a"}), **told})
    timeline.event(0.2, {"choices": [], "usage": {"completion_tokens": 1}})
    record = timeline.record(0.2)
    assert (record.cached, record.speculation, record.spans) == (None, None, None)
