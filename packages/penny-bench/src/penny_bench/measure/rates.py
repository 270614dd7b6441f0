"""Decode rates of streams that ran together. Three different numbers, never mixed."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from penny_bench.client import StreamRecord


@dataclass(frozen=True)
class GroupRates:
    """Rates of one group, tokens/s.

    Attributes:
        streams: decode rate of each stream, None where it has none.
        aggregate: tokens of all streams in the common window, divided by that window. None if a stream failed
            or there was no moment at which all were decoding.
        window: length of the common window, from the last first token to the first last token, s; 0 if none.
        whole: all tokens divided by the time from the first request to the last token: prefill, queue and
            tail included. None if a stream failed.
    """

    streams: tuple[float | None, ...]
    aggregate: float | None
    window: float
    whole: float | None


def decode_rate(record: StreamRecord) -> float | None:
    """Tokens after the first arrival divided by the time from it to the last one, tokens/s.

    That is `(completion_tokens - 1) / (last - first)` where the first event brought one token. None for a
    failed stream, and where everything came in a single moment.
    """
    if record.failure or record.output_tokens is None:
        return None
    span = record.arrivals[-1].t - record.arrivals[0].t
    return (record.output_tokens - record.first_tokens) / span if span > 0 else None


def group_rates(records: Sequence[StreamRecord]) -> GroupRates:
    """Rates of streams that were started together and share a clock."""
    streams = tuple(decode_rate(record) for record in records)
    if not records or any(record.failure for record in records):
        return GroupRates(streams, None, 0.0, None)
    last = max(record.arrivals[-1].t for record in records)
    total = sum(record.output_tokens or 0 for record in records)
    makespan = last - min(record.sent for record in records)
    start = max(record.arrivals[0].t for record in records)
    end = min(record.arrivals[-1].t for record in records)
    aggregate = None
    if end > start:
        aggregate = sum(_tokens_by(record, end) - _tokens_by(record, start) for record in records) / (
            end - start
        )
    return GroupRates(streams, aggregate, max(0.0, end - start), total / makespan if makespan > 0 else None)


def _tokens_by(record: StreamRecord, t: float) -> float:
    """Tokens that had come by `t`, linear between the arrivals at which the server told its count."""
    known = [(a.t, a.tokens) for a in record.arrivals[1:-1] if a.tokens is not None]
    first = (record.arrivals[0].t, record.first_tokens)
    last = (record.arrivals[-1].t, record.output_tokens)
    times, counts = zip(first, *known, last, strict=True)
    return float(np.interp(t, np.array(times, dtype=float), np.array(counts, dtype=float)))
