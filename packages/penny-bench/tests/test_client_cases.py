"""The cases BE-*: bugs of other harnesses, each with its own input and what must come out."""

import json
from typing import Any

import pytest

from penny_bench.client import Exchange, StreamRecord, Timeline
from penny_bench.load import latencies, summarise_run
from penny_bench.measure import decode_rate

BE01 = {
    "start": 0.0,
    "chunks": [{"t": t / 10, "tokens": 4} for t in range(2, 10)],
    "end": 1.0,
    "usage_completion_tokens": 32,
}
BE03: list[dict[str, Any]] = [
    {"t": 0.05, "delta": {"role": "assistant", "content": ""}},
    {"t": 0.8, "delta": {"reasoning_content": "Let"}},
    {"t": 0.9, "delta": {"reasoning_content": " me"}},
    {"t": 1.5, "delta": {"content": "4"}},
    {
        "t": 1.51,
        "choices": [],
        "usage": {"prompt_tokens": 9, "completion_tokens": 40, "reasoning_tokens": 39},
    },
]
BE05: list[dict[str, Any]] = [
    {"t": 0.5, "delta": {}, "usage": {"completion_tokens": 1}},
    {"t": 0.6, "delta": {}, "usage": {"completion_tokens": 9}},
    {
        "t": 0.7,
        "delta": {"tool_calls": [{"index": 0, "function": {"name": "f", "arguments": "{}"}}]},
        "usage": {"completion_tokens": 20},
    },
    {"t": 0.8, "delta": {}, "finish_reason": "tool_calls", "usage": {"completion_tokens": 24}},
]
BE06 = {"text": "\t" * 12, "usage_completion_tokens": 12, "retokenised": 1}
BE08: dict[str, list[dict[str, Any]]] = {
    "a": [
        {"t": 0.4, "delta": {"content": "x"}},
        {"t": 0.5, "choices": [], "usage": {"completion_tokens": 7}},
    ],
    "b": [{"t": 0.4, "delta": {"content": "x"}}, {"t": 0.5, "delta": {}, "finish_reason": "stop"}],
    "c": [{"t": 0.5, "error": {"message": "overloaded"}}],
}


def record(events: list[dict[str, Any]]) -> StreamRecord:
    """The record of events as the cases write them, from their bytes: `t` and the fields of a chunk."""
    timeline = Timeline(sent=0.0)
    exchange = Exchange(timeline, lambda: 0.0)
    exchange.head(200, "text/event-stream")
    for event in events:
        payload = {key: value for key, value in event.items() if key not in ("t", "delta", "finish_reason")}
        if "delta" in event:
            choice = {"index": 0, "delta": event["delta"], "finish_reason": event.get("finish_reason")}
            payload["choices"] = [choice]
        exchange.body(event["t"], f"data: {json.dumps(payload)}\n\n".encode())
    exchange.end()
    return timeline.record(events[-1]["t"])


def test_be01_peak_throughput_counts_tokens_not_chunks() -> None:
    chunks: Any = BE01["chunks"]
    end = {"t": BE01["end"], "delta": {}, "finish_reason": "stop"}
    usage = {"t": BE01["end"], "choices": [], "usage": {"completion_tokens": BE01["usage_completion_tokens"]}}
    got = summarise_run(
        [record([*({"t": c["t"], "delta": {"content": "of four"}} for c in chunks), end, usage])]
    )
    assert got.output_rate == pytest.approx(32.0)
    assert got.peak_output_rate == pytest.approx(32.0)
    assert got.peak_output_rate != pytest.approx(len(chunks))  # 8, the events
    assert got.peak_output_rate is not None
    assert got.output_rate is not None
    assert got.peak_output_rate >= got.output_rate


def test_be03_reasoning_deltas_count() -> None:
    got = record(BE03)
    assert (got.ttft, got.time_to_answer) == (0.8, 1.5)
    assert (got.output_tokens, got.reasoning_tokens) == (40, 39)
    summary = summarise_run([got])
    assert summary.ttft is not None
    assert summary.ttft_content is not None
    assert (summary.ttft.p50, summary.ttft_content.p50, summary.output_tokens) == (0.8, 1.5, 40)


def test_be05_tokens_hidden_by_a_buffering_tool_parser() -> None:
    got = record(BE05)
    assert got.ttft == 0.5  # not 0.7, when the call came
    rate = decode_rate(got)
    assert rate is not None
    assert round(rate, 2) == 76.67  # 23 tokens in 0.3 s


def test_be06_tokens_are_not_counted_by_tokenising_the_text() -> None:
    text = {"t": 0.1, "delta": {"content": BE06["text"]}}
    end = {"t": 0.2, "delta": {}, "finish_reason": "stop"}
    counted = record([text, end, {"t": 0.2, "choices": [], "usage": {"completion_tokens": 12}}])
    assert (counted.output_tokens, counted.estimated) == (BE06["usage_completion_tokens"], False)
    assert counted.output_tokens != BE06["retokenised"]
    # Without usage no number is made up, and none is mixed with those that are exact.
    untold = record([text, end])
    assert (untold.output_tokens, untold.estimated) == (None, True)
    assert summarise_run([counted, untold]).output_tokens == 12


def test_be08_usage_at_the_end_no_usage_and_no_token() -> None:
    a, b, c = (record(BE08[name]) for name in "abc")
    assert (a.output_tokens, a.failure, a.estimated) == (7, None, False)
    assert (b.output_tokens, b.estimated) == (None, True)
    assert c.failure is not None
    assert c.failure.message == "The server ended the stream with an error: overloaded."
    assert (c.ttft, latencies(c)) == (None, None)
    summary = summarise_run([a, b, c])
    assert (summary.requests, summary.succeeded, summary.errors) == (3, 1, {"no_usage": 1, "server": 1})
    assert summary.ttft is not None
    assert (summary.ttft.n, summary.ttft.mean) == (1, 0.4)  # not (0.4 + 0 + 0) / 3
    assert summary.output_tokens == 7
