"""A server's own times of one request, from its counters before and after.

SGLang and vLLM keep histograms of the stages of requests at `/metrics`. While one request runs alone, what their
sums grow by is that request's time, exactly; if a count grew by anything but one, nothing is told. So nothing is
told of requests that run together either: neither server streams the times of each over the chat protocol, and a
mean over a group would be no request's time.

What the histograms of SGLang hold (its 0.5.23, `observability/req_time_stats.py`; on the tiny CPU server they agreed to
a tenth of a microsecond with the time stamps that `meta_info` of `/generate` tells of the same requests):

- `queue_time_seconds`: from the arrival in the scheduler's queue to the first forward pass. A prefix that comes from
  storage is read into host memory meanwhile, so that a restore from disk shows here. Waiting again after a retraction
  is not in it.
- `per_stage_req_latency_seconds{stage="prefill_forward"}`: from the start of the first forward pass to the end of the
  initial prefill: **all** chunks of a chunked prefill (each chunk is counted once more under `chunked_prefill`), what
  other requests did between them, the copy of a prefix from host memory to the device, and the encoders of media.
  It is observed once for a request: one that was retracted while it decoded is not observed again, though it is
  prefilled again; one retracted before its initial prefill was over is observed from its return on.
- Something is always computed: of a prompt that is known to the last token, up to one page and at least one token.
- What `e2e_request_latency_seconds` has beyond `time_to_first_token_seconds` is the time after the prefill. Both also
  hold the tokenizing, which belongs to no span: queue + prefill is less than the client's TTFT.
- A call of `/health` while nothing runs is computed and counted like a request; with a monitor, spans may be missing.

vLLM's histograms have the same meaning (first scheduled, first token, last token), and are observed when a request
ends.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

import httpx

from penny_bench.client import Server, Spans
from penny_bench.server import MetricsPage, MetricsReader


@dataclass(frozen=True)
class _Histogram:
    name: str
    stage: str = ""

    def read(self, page: MetricsPage) -> tuple[float, float]:
        labels = {"stage": self.stage} if self.stage else {}
        total = page.value(f"{self.name}_sum", **labels)
        return total or 0.0, page.value(f"{self.name}_count", **labels) or 0.0

    def grown(self, before: MetricsPage, after: MetricsPage) -> tuple[float, int]:
        (total, count), (earlier, counted) = self.read(after), self.read(before)
        return total - earlier, round(count - counted)

    def one(self, before: MetricsPage, after: MetricsPage) -> float | None:
        total, count = self.grown(before, after)
        return total if count == 1 else None


@dataclass(frozen=True)
class _Dialect:
    """How one server calls them; the time after the prefill is `whole` without `first`."""

    source: str
    queue: _Histogram
    prefill: _Histogram
    whole: _Histogram
    first: _Histogram | None = None


_DIALECTS = (
    _Dialect(
        "sglang /metrics",
        _Histogram("sglang:queue_time_seconds"),
        _Histogram("sglang:per_stage_req_latency_seconds", "prefill_forward"),
        _Histogram("sglang:e2e_request_latency_seconds"),
        _Histogram("sglang:time_to_first_token_seconds"),
    ),
    _Dialect(
        "vllm /metrics",
        _Histogram("vllm:request_queue_time_seconds"),
        _Histogram("vllm:request_prefill_time_seconds"),
        _Histogram("vllm:request_decode_time_seconds"),
    ),
)

NAMES = tuple(
    f"{part.name}_{what}"
    for d in _DIALECTS
    for part in (d.queue, d.prefill, d.whole, d.first)
    if part
    for what in ("sum", "count")
)
"""Values that are read."""

PATIENCE = 2.0
"""How long a server may take to count a request that has ended, s."""
PAUSE = 0.1
"""Between two looks at the counters, s."""


def spans_between(before: MetricsPage, after: MetricsPage) -> Spans | None:
    """The spans of the one request that was counted between two pages; None if it was not just one."""
    dialect = _dialect(after)
    prefill = dialect.prefill.one(before, after) if dialect else None
    if dialect is None or prefill is None:
        return None
    rest = dialect.whole.one(before, after)
    if rest is not None and dialect.first:
        first = dialect.first.one(before, after)
        rest = None if first is None else max(0.0, rest - first)
    return Spans(dialect.queue.one(before, after), prefill, rest, dialect.source)


class SpanProbe:
    """Reads a server's counters around requests that run alone; silent for servers without any.

    Attributes:
        reason: why the last request has no spans, as a sentence; "" if it has.
    """

    def __init__(self, server: Server, client: httpx.AsyncClient) -> None:
        self.reason = ""
        self._reader = MetricsReader(server, client, NAMES)

    async def before(self) -> MetricsPage | None:
        """The counters now; None where the server has none."""
        page = await self._reader.read()
        self.reason = self._reader.reason
        return page

    async def after(self, before: MetricsPage | None, whole: bool = True) -> Spans | None:
        """The spans of the request that ran since `before`, once the server has counted it.

        Args:
            before: from `before`.
            whole: whether to wait until the request's end is counted. Without, its prefill is enough, so that
                others that were already decoding may go on meanwhile.
        """
        if before is None:
            return None
        counted = 0
        for _ in range(int(PATIENCE / PAUSE)):
            page = await self.before()
            if page is None:
                return None
            spans = spans_between(before, page)
            if spans and (spans.post_prefill is not None or not whole):
                return spans
            dialect = _dialect(page)
            if dialect is None:
                self.reason = "The page /metrics has no times of stages; SGLang and vLLM have them."
                return None
            counted = dialect.prefill.grown(before, page)[1]
            if counted > 1:
                break
            await asyncio.sleep(PAUSE)
        self.reason = (
            f"The server counted {counted} prefills where one request was sent: whose its times are is open."
        )
        return None


def _dialect(page: MetricsPage) -> _Dialect | None:
    names = page.names()
    return next((d for d in _DIALECTS if f"{d.prefill.name}_sum" in names), None)
