"""What a server did over time, against pages in the forms of three servers; values by hand."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from penny_bench.client import Server
from penny_bench.server import parse_metrics
from penny_bench.server.samples import ServerSample, ServerSampler, sample_of

SGLANG = """\
sglang:max_total_num_tokens{tp_rank="0"} 16384.0
sglang:num_running_reqs{tp_rank="0"} 3.0
sglang:num_queue_reqs{tp_rank="0"} 2.0
sglang:token_usage{tp_rank="0"} 0.25
sglang:mamba_usage{tp_rank="0"} 0.125
sglang:gen_throughput{tp_rank="0"} 390.5
sglang:spec_accept_length{tp_rank="0"} 2.92
sglang:cache_hit_rate{tp_rank="0"} 0.5
sglang:prompt_tokens_total{is_streaming="true"} 900.0
sglang:prompt_tokens_total{is_streaming="false"} 11.0
sglang:generation_tokens_total{is_streaming="true"} 64.0
sglang:cached_tokens_total{cache_source="device"} 640.0
sglang:cached_tokens_total{cache_source="storage"} 128.0
"""
VLLM = """\
vllm:num_requests_running{engine="0"} 1.0
vllm:num_requests_waiting{engine="0"} 0.0
vllm:kv_cache_usage_perc{engine="0"} 0.75
vllm:num_preemptions_total{engine="0"} 4.0
vllm:prompt_tokens_total{engine="0"} 10.0
vllm:generation_tokens_total{engine="0"} 20.0
"""
LLAMA = """\
llamacpp:requests_processing 1
llamacpp:requests_deferred 2
llamacpp:predicted_tokens_seconds 50.5
llamacpp:prompt_tokens_total 7
llamacpp:tokens_predicted_total 8
"""


def sample(page: str) -> ServerSample:
    return sample_of(parse_metrics(page), 5.0, 0.25)


def test_samples_of_three_servers() -> None:
    assert sample(SGLANG) == ServerSample(
        t=5.0,
        took=0.25,
        running=3.0,
        queued=2.0,
        token_usage=0.25,
        mamba_usage=0.125,
        gen_throughput=390.5,
        accept_length=2.92,
        cache_hit_rate=0.5,
        cached_device=640.0,
        cached_host=0.0,  # counted from the first time on
        cached_storage=128.0,
        prompt_tokens=911.0,
        output_tokens=64.0,
        evicted_tokens=0.0,
        retracted=0.0,
    )
    assert sample(VLLM) == ServerSample(
        t=5.0,
        took=0.25,
        running=1.0,
        queued=0.0,
        token_usage=0.75,
        prompt_tokens=10.0,
        output_tokens=20.0,
        retracted=4.0,
    )
    assert sample(LLAMA) == ServerSample(
        t=5.0,
        took=0.25,
        running=1.0,
        queued=2.0,
        gen_throughput=50.5,
        prompt_tokens=7.0,
        output_tokens=8.0,
    )
    assert sample("other_total 3\n") == ServerSample(t=5.0, took=0.25)


@contextmanager
def serving(*answers: tuple[int, str]) -> Iterator[tuple[Server, list[str]]]:
    """A server whose `/metrics` gives these answers in turn, the last for ever, and the keys it was shown."""
    keys: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            assert self.path == "/metrics"
            status, text = answers[min(len(keys), len(answers) - 1)]
            keys.append(self.headers.get("Authorization", ""))
            self.send_response(status)
            self.end_headers()
            self.wfile.write(text.encode())

        def log_message(self, *_: object) -> None:
            """Says nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as http:
        thread = threading.Thread(target=http.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            yield Server(url=f"http://127.0.0.1:{http.server_port}/v1", api_key="sesame"), keys
        finally:
            http.shutdown()
            thread.join()


def test_sampler_over_time() -> None:
    later = SGLANG.replace('num_running_reqs{tp_rank="0"} 3.0', 'num_running_reqs{tp_rank="0"} 4.0')
    with serving((200, SGLANG), (503, ""), (200, later)) as (server, keys):
        before = time.perf_counter()
        with ServerSampler(server, interval=0.02) as sampler:
            while len(sampler.samples) < 3:
                time.sleep(0.01)
        after = time.perf_counter()
    times = [found.t for found in sampler.samples]
    assert times == sorted(times)
    assert before < times[0] < times[-1] < after
    assert times[1] - times[0] >= 0.02
    assert all(0 < found.took < 1 for found in sampler.samples)
    assert [found.running for found in sampler.samples[:3]] == [3.0, 4.0, 4.0]
    assert sampler.missed == 1
    assert "HTTP 503" in sampler.reason
    assert 0 < sampler.cpu_seconds < after - before
    assert set(keys) == {"Bearer sesame"}
    first = sampler.document()[0]
    assert (first["running"], first["host_tokens"]) == (3.0, None)


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ((404, ""), "HTTP 404"),
        ((200, "sglang:token_usage{ 1\n"), "text format"),
        ((200, "other 1\n"), "none of the values"),
    ],
)
def test_sampler_stops_without_a_page(answer: tuple[int, str], words: str) -> None:
    with serving(answer) as (server, keys):
        with ServerSampler(server, interval=0.01) as sampler:
            time.sleep(0.3)
        assert len(keys) == 1
    assert sampler.samples == []
    assert sampler.document() == []
    assert words in sampler.reason


def test_sampler_of_a_server_that_is_down() -> None:
    with ServerSampler(Server(url="http://127.0.0.1:9/v1"), interval=0.01) as sampler:
        while sampler.missed < 2:
            time.sleep(0.01)
    assert sampler.samples == []
    assert "did not come (ConnectError)" in sampler.reason
