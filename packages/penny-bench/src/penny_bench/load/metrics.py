"""Latencies of one request. Tokens are the server's count; events are never taken for tokens."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

from penny_bench.client import StreamRecord
from penny_bench.measure import decode_rate


@dataclass(frozen=True, kw_only=True)
class Latencies:
    """Times of a request that succeeded, s, from just before it was sent.

    Attributes:
        ttft: to the first token of any kind.
        ttft_content: to the first token that is not reasoning (content, tool call, refusal); None without one.
        tpot: time per token after the first event, `(last - first) / tokens after the first event`; None if
            all came at once.
        e2e: to the last token.
        itl: for each token after the first event its share of the pause before its event: an event of 4
            tokens after 40 ms gives 4 x 10 ms. None where the server does not say how many an event brought.
        stalls: pauses between events with tokens, whatever they brought.
    """

    ttft: float
    ttft_content: float | None
    tpot: float | None
    e2e: float
    itl: tuple[float, ...] | None
    stalls: tuple[float, ...]


def latencies(record: StreamRecord) -> Latencies | None:
    """The latencies of a record; None if its stream failed."""
    if record.failure or record.ttft is None:
        return None
    rate = decode_rate(record)
    return Latencies(
        ttft=record.ttft,
        ttft_content=record.time_to_answer,
        tpot=1 / rate if rate else None,
        e2e=record.arrivals[-1].t - record.sent,
        itl=_itl(record),
        stalls=tuple(b.t - a.t for a, b in pairwise(record.arrivals)),
    )


def tokens_of_arrivals(record: StreamRecord) -> list[int] | None:
    """How many tokens each arrival brought; None where the server's counts do not tell.

    They tell if every arrival carries a running count, or if as many events with text came as there are tokens;
    the end of the choice, which a record without running counts has as its last arrival, then brought none.
    """
    counts = [arrival.tokens for arrival in record.arrivals]
    known = [count for count in counts if count is not None]
    if len(known) == len(counts):
        return [b - a for a, b in pairwise([0, *known])]
    if record.output_tokens == len(counts):
        return [1] * len(counts)
    if not any(counts[:-1]) and record.output_tokens == counts[-1] == len(counts) - 1:
        return [1] * (len(counts) - 1) + [0]
    return None


def _itl(record: StreamRecord) -> tuple[float, ...] | None:
    brought = tokens_of_arrivals(record)
    if brought is None:
        return None
    found: list[float] = []
    for (before, arrival), tokens in zip(pairwise(record.arrivals), brought[1:], strict=True):
        found += [(arrival.t - before.t) / tokens] * tokens if tokens > 0 else []
    return tuple(found)
