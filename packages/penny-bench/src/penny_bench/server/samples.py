"""What a server did over time, from its counters, read by a thread of its own."""

from __future__ import annotations

import threading
import time
from dataclasses import asdict, dataclass
from types import TracebackType
from urllib.parse import urlsplit

import httpx

from penny_bench.client import Server
from penny_bench.server.metrics import MetricsPage, judged
from penny_bench.server.pages import PATIENCE, page_url

INTERVAL = 2.0
"""Pause between samples, s. Servers write the page in the loop that also passes on tokens: each sample may hold a
stream up for as long as it `took` (SGLang 0.5.23 on a CPU: 7 ms), so there should not be many."""


@dataclass(frozen=True, kw_only=True)
class ServerSample:
    """One look at the counters. What the server does not tell is None.

    SGLang renews its rates and usages only every 40 decode steps and at each prefill (`--decode-log-interval`).

    Attributes:
        t: `time.perf_counter()` when the page had come.
        took: s from asking to having it.
        running, queued: requests that are computed, and that wait.
        token_usage: share of the device's KV pool that running requests hold (vLLM: that is in use).
        mamba_usage: the same of the pool of recurrent states.
        host_tokens: tokens in the host tier.
        gen_throughput: output tokens/s over the server's last interval.
        accept_length: tokens of a verify step over that interval; 0 where nothing was drafted.
        cache_hit_rate: share of the prompt tokens of its last prefill batch that came from the cache.
        cached_device, cached_host, cached_storage: prompt tokens that came from these tiers, of finished requests,
            since the server started.
        prompt_tokens, output_tokens: of finished requests (llama.cpp: of all), since the server started.
        evicted_tokens: tokens that left the device's pool, since the server started.
        retracted: requests that were taken back from the device for want of space, since the server started.
    """

    t: float
    took: float
    running: float | None = None
    queued: float | None = None
    token_usage: float | None = None
    mamba_usage: float | None = None
    host_tokens: float | None = None
    gen_throughput: float | None = None
    accept_length: float | None = None
    cache_hit_rate: float | None = None
    cached_device: float | None = None
    cached_host: float | None = None
    cached_storage: float | None = None
    prompt_tokens: float | None = None
    output_tokens: float | None = None
    evicted_tokens: float | None = None
    retracted: float | None = None


_SOURCES: dict[str, tuple[str, ...]] = {
    "running": ("sglang:num_running_reqs", "vllm:num_requests_running", "llamacpp:requests_processing"),
    "queued": ("sglang:num_queue_reqs", "vllm:num_requests_waiting", "llamacpp:requests_deferred"),
    "token_usage": ("sglang:token_usage", "vllm:kv_cache_usage_perc", "vllm:gpu_cache_usage_perc"),
    "mamba_usage": ("sglang:mamba_usage",),
    "host_tokens": ("sglang:hicache_host_used_tokens",),
    "gen_throughput": ("sglang:gen_throughput", "llamacpp:predicted_tokens_seconds"),
    "accept_length": ("sglang:spec_accept_length",),
    "cache_hit_rate": ("sglang:cache_hit_rate",),
    "prompt_tokens": (
        "sglang:prompt_tokens_total",
        "vllm:prompt_tokens_total",
        "llamacpp:prompt_tokens_total",
    ),
    "output_tokens": (
        "sglang:generation_tokens_total",
        "vllm:generation_tokens_total",
        "llamacpp:tokens_predicted_total",
    ),
    "evicted_tokens": ("sglang:evicted_tokens_total",),
    "retracted": ("sglang:num_retracted_requests_total", "vllm:num_preemptions_total"),
}
_TIERS = "sglang:cached_tokens_total"
_LATE = ("sglang:evicted_tokens_total", "sglang:num_retracted_requests_total")
"""SGLang shows these from the first time on: without, there was none."""

NAMES = (*(name for names in _SOURCES.values() for name in names), _TIERS, "sglang:max_total_num_tokens")


def sample_of(page: MetricsPage, t: float, took: float) -> ServerSample:
    """The sample that a page gives."""
    found = {key: _first(page, names) for key, names in _SOURCES.items()}
    if page.value("sglang:max_total_num_tokens") is not None:
        for tier in ("device", "host", "storage"):
            found[f"cached_{tier}"] = page.value(_TIERS, cache_source=tier) or 0.0
        for key, names in _SOURCES.items():
            if found[key] is None and names[0] in _LATE:
                found[key] = 0.0
    return ServerSample(t=t, took=took, **found)


class ServerSampler:
    """Samples while it is open (`with`), if the server has `/metrics`; else it stops at once.

    Its thread belongs to the process of the client, so that the client's processor time holds its own as well:
    `cpu_seconds` says how much.

    Attributes:
        samples: in order of time.
        reason: why there are none or why one is missing, as a sentence; "" if none is.
        missed: pages that did not come or could not be read.
        cpu_seconds: processor time of the thread, s.
    """

    def __init__(self, server: Server, interval: float = INTERVAL) -> None:
        self.samples: list[ServerSample] = []
        self.reason = ""
        self.missed = 0
        self.cpu_seconds = 0.0
        self._server = server
        self._interval = interval
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._work, daemon=True)

    def __enter__(self) -> ServerSampler:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()

    def document(self) -> list[dict[str, float | None]]:
        """The samples as plain data."""
        return [asdict(sample) for sample in self.samples]

    def _work(self) -> None:
        url, headers = page_url(self._server, "metrics"), self._server.headers()
        local = urlsplit(url).hostname in ("localhost", "127.0.0.1", "::1")
        with httpx.Client(timeout=PATIENCE, follow_redirects=True, trust_env=not local) as client:
            while True:
                go_on = self._sample(client, url, headers)
                self.cpu_seconds = time.thread_time()
                if not go_on or self._stop.wait(self._interval):
                    return

    def _sample(self, client: httpx.Client, url: str, headers: dict[str, str]) -> bool:
        """Take one; whether to go on."""
        asked = time.perf_counter()
        try:
            answer = client.get(url, headers=headers)
        except httpx.HTTPError as error:
            self.missed += 1
            self.reason = f"The page /metrics did not come ({type(error).__name__})."
            return True
        came = time.perf_counter()
        page, reason, absent = judged(answer, NAMES)
        if page:
            self.samples.append(sample_of(page, came, came - asked))
            return True
        self.missed += 1
        self.reason = reason or "The page /metrics has none of the values of SGLang, vLLM and llama.cpp."
        return page is None and not absent


def _first(page: MetricsPage, names: tuple[str, ...]) -> float | None:
    return next((value for name in names if (value := page.value(name)) is not None), None)
