"""Decode rate of groups of streams that start together, one phase for each concurrency and context."""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field

from penny_bench.client import StreamRecord
from penny_bench.load import RunRequest
from penny_bench.measure import group_rates
from penny_bench.workload.bench import Bench, Phase
from penny_bench.workload.kinds import Kind
from penny_bench.workload.speculation import summed

WARM = 2048
"""Longest prompt of a warm-up, tokens."""
Length = Annotated[int, Field(ge=1)]
Lengths = Annotated[tuple[Length, ...], Field(min_length=1)]


class Settings(BaseModel):
    """Attributes:
    concurrency: streams of a group; a phase for each, with every length of the prompts.
    tokens: tokens that each stream asks for.
    prompt_tokens: length of the prompts, about; a list has phases of its own for each.
    exact: whether to go on after the end of the text, so that each stream has just `tokens` tokens.
    prompt: in place of the passages: a request in words, the same in all streams but for its first line.
    least: tokens that a stream must have had for its decode rate to count; natural replies may be short.
    runs, warmups: groups measured for each concurrency, and before; those have at most `WARM` tokens in.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    concurrency: tuple[int, ...] = Field(default=(1, 4), min_length=1)
    tokens: int = Field(default=256, ge=2)
    prompt_tokens: Length | Lengths = 128
    exact: bool = True
    prompt: str | None = None
    least: int = Field(default=2, ge=2)
    runs: int = Field(default=3, ge=1)
    warmups: int = Field(default=1, ge=0)


async def run(bench: Bench, settings: Settings) -> None:
    """See `Kind.run`."""
    lengths = (settings.prompt_tokens,) if isinstance(settings.prompt_tokens, int) else settings.prompt_tokens
    several = len(lengths) > 1
    for length in lengths:
        for streams in settings.concurrency:
            name = f"C{streams} {length}" if several else f"C{streams}"
            label = f"{streams} stream{'s' if streams > 1 else ''}"
            label += f" of {length:,} tokens" if several else ""
            if settings.warmups:
                async with bench.phase(
                    f"{name} warm-up",
                    f"{label}, warm-up",
                    warmup=True,
                    streams=streams,
                    total=settings.warmups * streams,
                ) as phase:
                    for _ in range(settings.warmups):
                        await _group(bench, phase, settings, streams, min(length, WARM))
            async with bench.phase(name, label, streams=streams, total=settings.runs * streams) as phase:
                groups = [await _group(bench, phase, settings, streams, length) for _ in range(settings.runs)]
            _metrics(phase, groups, settings.least)


async def _group(
    bench: Bench, phase: Phase, settings: Settings, streams: int, length: int
) -> list[StreamRecord]:
    if settings.prompt is None:
        texts = [bench.prompt(length) for _ in range(streams)]
    else:
        texts = [bench.first_line() + settings.prompt for _ in range(streams)]
    bodies = [bench.chat(text, settings.tokens, exact=settings.exact) for text in texts]
    return [request.record for request in await phase.group(bodies)]


def _metrics(phase: Phase, groups: list[list[StreamRecord]], least: int) -> None:
    requests: list[RunRequest] = phase.requests
    whole = [group for group in groups if not any(record.failure for record in group)]
    long = [group for group in whole if all((record.output_tokens or 0) >= least for record in group)]
    rates = [group_rates(group) for group in long]
    each = [rate for group in rates for rate in group.streams]
    if short := len(whole) - len(long):
        phase.bench.note(
            f"{phase.label}: in {short} of {len(groups)} groups a reply had fewer than {least} tokens, too few for a "
            f"decode rate."
        )
    phase.metric("aggregate", "decode, all", [rate.aggregate for rate in rates], "tok/s", "higher")
    phase.metric("stream", "decode, each", each, "tok/s", "higher")
    phase.metric("whole", "whole requests", [group_rates(g).whole for g in groups], "tok/s", "higher")
    phase.metric("ttft", "TTFT", [request.record.ttft for request in requests], "s", "lower")
    counts = [request.record.output_tokens for request in requests if request.record.failure is None]
    phase.metric("output", "output", [None if n is None else float(n) for n in counts], "tokens", None)
    if total := summed(request.record.speculation for request in requests):
        phase.metric("acceptance_length", "acceptance length", [total.acceptance_length], "tokens", None)


KIND = Kind("decode", Settings, run)
