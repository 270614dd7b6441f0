"""The numbers of a whole run."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from penny_bench.client import StreamRecord
from penny_bench.load.metrics import latencies, tokens_of_arrivals
from penny_bench.load.slo import Slo

WINDOW = 1.0
"""Length of the windows of the peak rate, s."""


@dataclass(frozen=True)
class Distribution:
    """Of `n` values; percentiles are linear between the two nearest ranks (Hyndman and Fan's type 7)."""

    n: int
    mean: float
    minimum: float
    p50: float
    p90: float
    p95: float
    p99: float
    maximum: float

    @classmethod
    def of(cls, values: Iterable[float | None]) -> Distribution | None:
        """Of all values that are not None; None if nothing is left."""
        data = np.array([value for value in values if value is not None], dtype=float)
        if data.size == 0:
            return None
        ranks = np.percentile(data, [0, 50, 90, 95, 99, 100], method="linear").tolist()
        return cls(int(data.size), float(data.mean()), *ranks)


@dataclass(frozen=True, kw_only=True)
class Summary:
    """Of the requests of a run, without warm-ups. Only those that succeeded are in latencies and tokens.

    Attributes:
        requests, succeeded: how many.
        errors: how many failed, by kind of failure.
        seconds: from the first request sent to the last token or failure, whichever is later, s; 0 if all failed.
            A failure took the time that it took, so it is charged to the rates.
        request_rate: succeeded requests / `seconds`.
        output_rate: output tokens / `seconds`, tokens/s.
        peak_output_rate: most tokens in any second, tokens/s, never below `output_rate`. Where the server
            does not say what an event brought, its tokens are spread evenly over the events of the stream.
        input_tokens, output_tokens, reasoning_tokens: sums of the server's usage; None if it never said.
        ttft, ttft_content, tpot, e2e, itl, stalls: see `Latencies`; seconds.
        good: requests that met the objectives; None without any.
        goodput: `good / seconds`, requests/s.
    """

    requests: int
    succeeded: int
    errors: dict[str, int]
    seconds: float
    request_rate: float | None
    output_rate: float | None
    peak_output_rate: float | None
    input_tokens: int | None
    output_tokens: int | None
    reasoning_tokens: int | None
    ttft: Distribution | None
    ttft_content: Distribution | None
    tpot: Distribution | None
    e2e: Distribution | None
    itl: Distribution | None
    stalls: Distribution | None
    good: int | None
    goodput: float | None


def summarise_run(records: Sequence[StreamRecord], slo: Slo | None = None) -> Summary:
    """Summarise records that share a clock."""
    times = [latencies(record) for record in records]
    fine = [record for record in records if record.failure is None]
    known = [value for value in times if value is not None]
    ends = [record.ended if record.failure else record.arrivals[-1].t for record in records]
    seconds = max(ends) - min(record.sent for record in records) if fine else 0.0
    output = _total(record.output_tokens for record in fine)
    rate = output / seconds if output is not None and seconds > 0 else None
    good = sum(slo.met(value) for value in times) if slo else None
    return Summary(
        requests=len(records),
        succeeded=len(fine),
        errors=dict(Counter(record.failure.kind for record in records if record.failure)),
        seconds=seconds,
        request_rate=len(fine) / seconds if seconds > 0 else None,
        output_rate=rate,
        peak_output_rate=max(rate, peak_rate(fine)) if rate is not None else None,
        input_tokens=_total(record.prompt_tokens for record in fine),
        output_tokens=output,
        reasoning_tokens=_total(record.reasoning_tokens for record in fine),
        ttft=Distribution.of(value.ttft for value in known),
        ttft_content=Distribution.of(value.ttft_content for value in known),
        tpot=Distribution.of(value.tpot for value in known),
        e2e=Distribution.of(value.e2e for value in known),
        itl=Distribution.of(t for value in known for t in value.itl or ()),
        stalls=Distribution.of(t for value in known for t in value.stalls),
        good=good,
        goodput=good / seconds if good is not None and seconds > 0 else None,
    )


def peak_rate(records: Iterable[StreamRecord]) -> float:
    """Most tokens that came within any `WINDOW`, as tokens/s; 0 without records."""
    events: list[tuple[float, float]] = []
    for record in records:
        brought: Sequence[float] | None = tokens_of_arrivals(record)
        if brought is None:
            brought = [(record.output_tokens or 0) / len(record.arrivals)] * len(record.arrivals)
        events += zip((arrival.t for arrival in record.arrivals), brought, strict=True)
    events.sort()
    starts = [t for t, _ in events]
    sums = np.cumsum([0.0, *(tokens for _, tokens in events)])
    most = [sums[bisect_left(starts, t + WINDOW)] - sums[i] for i, t in enumerate(starts)]
    return float(max(most, default=0.0)) / WINDOW


def _total(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None
