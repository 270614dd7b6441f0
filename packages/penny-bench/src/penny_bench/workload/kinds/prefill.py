"""Cold prefill: one long prompt at a time that no cache knows."""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict, Field

from penny_bench.client import StreamRecord
from penny_bench.workload.bench import Bench, Phase
from penny_bench.workload.kinds import Kind


class Settings(BaseModel):
    """Attributes:
    prompt_tokens: lengths, about, one phase for each.
    tokens: tokens that each request asks for.
    runs, warmups: requests of each length, and short ones before the first.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    prompt_tokens: tuple[int, ...] = Field(default=(65_536,), min_length=1)
    tokens: int = Field(default=8, ge=2)
    runs: int = Field(default=3, ge=1)
    warmups: int = Field(default=2, ge=0)


async def run(bench: Bench, settings: Settings) -> None:
    """See `Kind.run`."""
    if settings.warmups:
        async with bench.phase("warm-up", "warm-up", warmup=True, streams=1, total=settings.warmups) as phase:
            for _ in range(settings.warmups):
                text = bench.prompt(min(2048, *settings.prompt_tokens))
                await phase.send(bench.chat(text, settings.tokens, exact=True))
    for length in settings.prompt_tokens:
        async with bench.phase(
            f"prefill {length}", f"prefill of {length:,} tokens", streams=1, total=settings.runs
        ) as phase:
            for _ in range(settings.runs):
                text = bench.prompt(length)
                await phase.send(bench.chat(text, settings.tokens, exact=True), lone=True)
        _metrics(bench, phase)


def _metrics(bench: Bench, phase: Phase) -> None:
    records = [request.record for request in phase.requests if request.record.failure is None]
    rates = [prefill_rate(record) for record in records]
    phase.metric("prefill", "prefill, server's span", rates, "tok/s", "higher")
    phase.metric("ttft", "TTFT", [record.ttft for record in records], "s", "lower")
    spans = [record.spans for record in records if record.spans]
    phase.metric("prefill_span", "initial prefill, server", [span.prefill for span in spans], "s", "lower")
    phase.metric("queue_span", "queue, server", [span.queue for span in spans], "s", "lower")
    counts = [record.prompt_tokens for record in records]
    phase.metric("input", "input", [None if n is None else float(n) for n in counts], "tokens", None)
    if len([rate for rate in rates if rate]) < len(records):
        bench.note(
            "Not every request has the server's prefill time, so it has no prefill rate; TTFT is another thing. "
            f"{bench.spans.reason}".strip()
        )
    for record in records:
        inside = (record.spans.queue or 0.0) + (record.spans.prefill or 0.0) if record.spans else 0.0
        if record.ttft is not None and inside > record.ttft:
            bench.note(
                f"The server's queue and prefill ({inside:.4f} s) are longer than the client's TTFT "
                f"({record.ttft:.4f} s), which holds them; one of the two is wrong."
            )


def prefill_rate(record: StreamRecord) -> float | None:
    """Prompt tokens that were computed / the server's initial-prefill span, tokens/s; None if not told.

    Source: the definition of the reference since its version 2.4; cached tokens are not computed.
    """
    span = record.spans.prefill if record.spans else None
    if not span or record.prompt_tokens is None or record.failure:
        return None
    return (record.prompt_tokens - (record.cached_tokens or 0)) / span


KIND = Kind("prefill", Settings, run)
