"""A server's own times of one request, from stored pages; values by hand."""

import asyncio

import httpx
import pytest

from penny_bench.client import Server, Spans
from penny_bench.server import parse_metrics
from penny_bench.workload.spans import SpanProbe, spans_between

SGLANG = """\
sglang:queue_time_seconds_sum{{model_name="m",tp_rank="0"}} {queue}
sglang:queue_time_seconds_count{{model_name="m",tp_rank="0"}} {queued}
sglang:per_stage_req_latency_seconds_sum{{model_name="m",stage="request_process",tp_rank="0"}} 9.0
sglang:per_stage_req_latency_seconds_count{{model_name="m",stage="request_process",tp_rank="0"}} 9.0
sglang:per_stage_req_latency_seconds_sum{{model_name="m",stage="chunked_prefill",tp_rank="0"}} 100.0
sglang:per_stage_req_latency_seconds_count{{model_name="m",stage="chunked_prefill",tp_rank="0"}} 40.0
sglang:per_stage_req_latency_seconds_sum{{model_name="m",stage="prefill_forward",tp_rank="0"}} {prefill}
sglang:per_stage_req_latency_seconds_count{{model_name="m",stage="prefill_forward",tp_rank="0"}} {prefilled}
sglang:time_to_first_token_seconds_sum{{is_streaming="true",model_name="m"}} {first}
sglang:time_to_first_token_seconds_count{{is_streaming="true",model_name="m"}} {begun}
sglang:e2e_request_latency_seconds_sum{{is_streaming="true",model_name="m"}} {whole}
sglang:e2e_request_latency_seconds_count{{is_streaming="true",model_name="m"}} {ended}
"""
VLLM = """\
vllm:request_queue_time_seconds_sum{{engine="0",model_name="m"}} {queue}
vllm:request_queue_time_seconds_count{{engine="0",model_name="m"}} {queued}
vllm:request_prefill_time_seconds_sum{{engine="0",model_name="m"}} {prefill}
vllm:request_prefill_time_seconds_count{{engine="0",model_name="m"}} {prefilled}
vllm:request_decode_time_seconds_sum{{engine="0",model_name="m"}} {whole}
vllm:request_decode_time_seconds_count{{engine="0",model_name="m"}} {ended}
"""
ZERO = {
    "queue": 0.5,
    "queued": 4,
    "prefill": 2.0,
    "prefilled": 4,
    "first": 3.0,
    "begun": 4,
    "whole": 8.0,
    "ended": 4,
}
ONE = {
    "queue": 0.75,
    "queued": 5,
    "prefill": 6.5,
    "prefilled": 5,
    "first": 8.0,
    "begun": 5,
    "whole": 15.0,
    "ended": 5,
}


def text(form: str, **changed: float) -> str:
    return form.format(**{**ONE, **changed})


def between(form: str, **changed: float) -> Spans | None:
    return spans_between(parse_metrics(form.format(**ZERO)), parse_metrics(text(form, **changed)))


def test_one_request_of_sglang() -> None:
    # after the prefill: (15 - 8) end to end - (8 - 3) to the first token
    assert between(SGLANG) == Spans(0.25, 4.5, 2.0, "sglang /metrics")


def test_one_request_of_vllm() -> None:
    assert between(VLLM) == Spans(0.25, 4.5, 7.0, "vllm /metrics")


def test_the_first_request_of_a_server() -> None:
    later = text(SGLANG, queued=1, prefilled=1, begun=1, ended=1)
    assert spans_between(parse_metrics(""), parse_metrics(later)) == Spans(0.75, 6.5, 7.0, "sglang /metrics")


def test_what_was_not_counted_once_is_not_told() -> None:
    assert between(SGLANG, prefilled=6) is None  # two prefills: whose time?
    assert between(SGLANG, prefilled=4) is None  # none yet
    assert between(SGLANG, ended=4) == Spans(0.25, 4.5, None, "sglang /metrics")
    assert between(SGLANG, queued=7) == Spans(None, 4.5, 2.0, "sglang /metrics")
    assert spans_between(parse_metrics(""), parse_metrics("llamacpp:prompt_seconds_total 3\n")) is None


def probed(pages: list[str], whole: bool = True) -> tuple[Spans | None, str, int]:
    """What a probe says of a server that shows these pages, the last for ever; its reason; pages it read."""
    read = 0

    def handle(_: httpx.Request) -> httpx.Response:
        nonlocal read
        read += 1
        return httpx.Response(200, text=pages[min(read, len(pages)) - 1])

    async def run() -> tuple[Spans | None, str]:
        async with httpx.AsyncClient(transport=httpx.MockTransport(handle)) as client:
            probe = SpanProbe(Server(url="http://host/v1"), client)
            return await probe.after(await probe.before(), whole), probe.reason

    return (*asyncio.run(run()), read)


def test_probe_waits_until_the_server_has_counted() -> None:
    pages = [SGLANG.format(**ZERO), text(SGLANG, ended=4), text(SGLANG)]
    assert probed(pages) == (Spans(0.25, 4.5, 2.0, "sglang /metrics"), "", 3)
    assert probed(pages, whole=False) == (Spans(0.25, 4.5, None, "sglang /metrics"), "", 2)


@pytest.mark.parametrize(
    ("last", "words", "read"),
    [
        (text(SGLANG, prefilled=6), "counted 2 prefills where one request was sent", 2),
        ("llamacpp:prompt_seconds_total 3\n", "has no times of stages", 2),
    ],
)
def test_probe_says_why_it_has_nothing(last: str, words: str, read: int) -> None:
    spans, reason, pages = probed([SGLANG.format(**ZERO), last])
    assert spans is None
    assert words in reason
    assert pages == read
