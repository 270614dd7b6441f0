"""Parts of the restore workload: what is said, what is pushed out, what is counted."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from penny_bench.client import StreamRecord
from penny_bench.load import Check
from penny_bench.server import MetricsPage
from penny_bench.server.transfers import transfers
from penny_bench.workload.bench import Bench, Phase
from penny_bench.workload.tiers import Tier, from_tier

MARKER = 512
"""Tokens of a marker; it must be longer than a page."""


def said(record: StreamRecord) -> str:
    """A short digest of what a reply says."""
    reply = record.reply
    text = f"{reply.reasoning}\0{reply.content}" if reply else ""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def same_text(case: str, record: StreamRecord, expected: str) -> Check:
    """Whether a reply is the expected one, by its digest."""
    found = said(record)
    return Check(
        case, "says what it said cold", found == expected, f"Its digest is {found}, cold {expected}."
    )


async def push_out(bench: Bench, fill: int, prompt_tokens: int, page: int) -> None:
    """Push earlier prompts off the device by sending others, `fill` tokens at most.

    Markers are sent before them, one for each step, and a marker is asked for again after its step: what is older than
    a marker that has left the device is gone too, where the least recently used goes first. Asking a marker renews it,
    so that each can be asked only once.
    """
    steps = -(-fill // prompt_tokens)
    async with bench.phase("fill", "other prompts", warmup=True, streams=1, cached=True) as phase:
        markers = [bench.prompt(MARKER) for _ in range(steps)]
        for marker in markers:
            await phase.send(bench.chat(marker, 1, exact=True), case="marker")
        for marker in markers:
            sent = await phase.send(bench.chat(bench.prompt(prompt_tokens), 1, exact=True), case="filler")
            if sent.record.failure:
                bench.note(f"A prompt that was to fill the device failed: {sent.record.failure.message}")
                return
            asked = (await phase.send(bench.chat(marker, 1, exact=True), case="marker")).record
            if _gone(asked, page):
                return
    bench.note(f"After {fill:,} tokens of other prompts a marker was still on the device.")


def _gone(record: StreamRecord, page: int) -> bool:
    if record.cached:
        return record.cached.device <= page
    return record.cached_tokens == 0


def restore_metrics(
    phase: Phase,
    records: Sequence[StreamRecord],
    tier: Tier | None,
    before: MetricsPage | None,
    after: MetricsPage | None,
) -> float | None:
    """Add the metrics of a phase; `tier` None for the cold one.

    Returns:
        The load time of all sessions, s; None if one failed.
    """
    phase.metric("ttft", "TTFT", [record.ttft for record in records], "s", "lower")
    prompts = [r.prompt_tokens for r in records if r.prompt_tokens is not None]
    phase.metric("input", "input", [float(n) for n in prompts], "tokens", None)
    if not records or any(record.failure for record in records):
        return None
    took = max(r.arrivals[0].t for r in records) - min(r.sent for r in records)
    if len(records) > 1:
        phase.metric("load_time", "until the last first token", [took], "s", "lower")
    if tier is None:
        return took
    cached = [r.cached_tokens for r in records if r.cached_tokens is not None]
    computed = [
        float(r.prompt_tokens - r.cached_tokens) for r in records if r.prompt_tokens and r.cached_tokens
    ]
    phase.metric("computed", "computed again", computed, "tokens", "lower")
    shares = [
        100 * from_tier(r.cached, tier) / r.prompt_tokens
        for r in records
        if r.cached is not None and r.prompt_tokens
    ]
    phase.metric("tier_share", f"from {tier}", shares, "%", "higher")
    if cached and len(cached) == len(records):
        phase.metric("restored", "restored", [float(sum(cached))], "tokens", None)
        phase.metric("restore_rate", "restored / load time", [sum(cached) / took], "tok/s", "higher")
    for record in records:
        if record.spans and record.spans.prefill is not None and record.spans.queue is not None:
            load = record.spans.queue + record.spans.prefill
            phase.metric("load_span", "queue and prefill, server", [load], "s", "lower")
            if record.cached_tokens and load > 0:
                rate = record.cached_tokens / load
                phase.metric("restore_rate_server", "restored / server's span", [rate], "tok/s", "higher")
    moved = transfers(before, after)
    phase.metric("host_bandwidth", "host to device", [_giga(moved.host_rate)], "GB/s", "higher")
    phase.metric("storage_bandwidth", "storage to host", [_giga(moved.storage_rate)], "GB/s", "higher")
    return took


def _giga(value: float | None) -> float | None:
    return None if value is None else value / 1e9
