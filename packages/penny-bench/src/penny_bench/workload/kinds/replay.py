"""Agentic replay: conversations that grow turn by turn, with the same history on every server."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Sequence
from pathlib import Path
from random import Random
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from penny_bench.cases.replay import Session, cut, read_sessions, scripted_session, turn_sizes
from penny_bench.client import StreamRecord
from penny_bench.measure.rates import decode_rate
from penny_bench.text import repeated, segments
from penny_bench.workload.bench import Bench, Phase
from penny_bench.workload.kinds import Kind
from penny_bench.workload.kinds.prefill import prefill_rate
from penny_bench.workload.speculation import summed

BUCKETS = (2_000, 64_000, 100_000, 150_000, 262_000, 300_000, 325_000, 340_000, 360_000)

OPEN = 1 << 62
"""Upper bound of the last bucket."""


class Settings(BaseModel):
    """Attributes:
    context: tokens of the last request of a scripted session, about.
    turns: requests of a scripted session.
    sessions: scripted sessions, all at once.
    file: recorded sessions in place of scripted ones: JSON lines of messages, or of objects with `messages`.
    tokens: most tokens of an answer, its reasoning included.
    least: answers with fewer tokens have no decode rate.
    exact: whether to go on after the end of the text, so that each answer has just `tokens` tokens.
    tools: whether a scripted session has tool calls; else its results come in messages of the user.
    effort: `reasoning_effort` of every request; not sent if empty.
    pause: between an answer and the next request of its session, s.
    buckets: upper bounds of the contexts for which decode rates are told apart, tokens.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    context: int = Field(default=350_000, ge=512)
    turns: int = Field(default=24, ge=1)
    sessions: int = Field(default=1, ge=1)
    file: str = ""
    tokens: int = Field(default=1024, ge=2)
    least: int = Field(default=16, ge=2)
    exact: bool = False
    tools: bool = True
    effort: str = ""
    pause: float = Field(default=0.0, ge=0.0)
    buckets: tuple[int, ...] = Field(default=BUCKETS, min_length=1)


async def run(bench: Bench, settings: Settings) -> None:
    """See `Kind.run`."""
    sessions = _recorded(bench, Path(settings.file)) if settings.file else _scripted(bench, settings)
    turns = sum(len(session.turns) for session in sessions)
    async with bench.phase(
        "replay",
        f"{turns} turns in {len(sessions)} session{'s' if len(sessions) > 1 else ''}",
        streams=len(sessions),
        total=turns,
        cached=True,
    ) as phase:
        lone = len(sessions) == 1
        await asyncio.gather(*(_replay(bench, phase, settings, session, lone) for session in sessions))
    _metrics(phase, settings.buckets, settings.least)


async def _replay(bench: Bench, phase: Phase, settings: Settings, session: Session, lone: bool) -> None:
    fields: dict[str, Any] = {"reasoning_effort": settings.effort} if settings.effort else {}
    if session.tools:
        fields["tools"] = list(session.tools)
    for turn, history in enumerate(session.histories()):
        if turn and settings.pause:
            await asyncio.sleep(settings.pause)
        body = bench.chat(history, settings.tokens, exact=settings.exact, **fields)
        request = await phase.send(body, case=session.name, turn=turn, keep=True, lone=lone)
        failure = request.record.failure
        if failure and failure.status and 400 <= failure.status < 500 and failure.status != 429:
            left = len(session.turns) - turn - 1
            bench.note(
                f"{session.name} ended at turn {turn + 1}, {left} turns before its end: {failure.message}"
            )
            return


def _scripted(bench: Bench, settings: Settings) -> list[Session]:
    share = repeated(settings.context, bench.gauge)
    if share > 0.01:
        bench.note(f"{share:.0%} of each session comes twice in it: the works are shorter than it.")
    sessions = []
    for number in range(settings.sessions):
        draw = Random(f"replay {bench.seed} {number}")
        # The words around the results: about 1,500 characters once, 250 each turn, and the marks of the template.
        spoken = (1500 + 250 * settings.turns) * bench.gauge.rates[0] + 20 * settings.turns
        total = max(settings.context - bench.gauge.head - spoken, 16.0 * settings.turns)
        sizes = turn_sizes(total, settings.turns, draw)
        results = cut(segments(total, bench.seed, number, bench.gauge), sizes)
        name = f"session {number + 1}"
        sessions.append(scripted_session(name, bench.first_line(), results, draw, settings.tools))
    return sessions


def _recorded(bench: Bench, path: Path) -> list[Session]:
    sessions = read_sessions(path)
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    bench.note(
        f"The sessions are those of {path.name}, SHA-256 {digest}. Its words may be in the server's cache already."
    )
    return sessions


def _metrics(phase: Phase, buckets: Sequence[int], least: int) -> None:
    records = [request.record for request in phase.requests if request.record.failure is None]
    long = [record for record in records if (record.output_tokens or 0) >= least]
    if len(long) < len(records):
        phase.bench.note(
            f"{len(records) - len(long)} of {len(records)} answers have fewer than {least} tokens, so no decode rate."
        )
    _decode(phase, "", "decode", long)
    phase.metric("ttft", "TTFT of a turn", [record.ttft for record in records], "s", "lower")
    busy = sum(record.ended - record.sent for record in records)
    phase.metric("seconds", "requests, all turns added up", [busy] if records else [], "s", "lower")
    output = sum(record.output_tokens or 0 for record in records)
    phase.metric("output", "output, all turns", [float(output)], "tokens", None)
    known = [(r, r.prompt_tokens, r.cached_tokens or 0) for r in records if r.prompt_tokens]
    if known:
        asked, cached = sum(prompt for _, prompt, _ in known), sum(hit for _, _, hit in known)
        phase.metric("cached", "input from the cache", [100 * cached / asked], "%", "higher")
        phase.metric("uncached", "input computed, all turns", [float(asked - cached)], "tokens", "lower")
        longest = max(prompt for _, prompt, _ in known)
        phase.metric("context", "longest input", [float(longest)], "tokens", None)
    spans = [(prompt - hit, r.spans.prefill) for r, prompt, hit in known if r.spans and r.spans.prefill]
    if spans:
        rate = sum(tokens for tokens, _ in spans) / sum(span for _, span in spans)
        phase.metric("prefill_weighted", "prefill of the computed input, all", [rate], "tok/s", "higher")
    each = [prefill_rate(record) for record in records]
    phase.metric("prefill", "prefill of the computed input, each turn", each, "tok/s", "higher")
    if told := summed(record.speculation for record in records):
        phase.metric("acceptance_length", "acceptance length", [told.acceptance_length], "tokens", None)
    low = 0
    for high in (*sorted(buckets), OPEN):
        inside = [record for record in long if low <= (record.prompt_tokens or 0) < high]
        _decode(phase, f"_{low}", f"decode at {_range(low, high)}", inside)
        low = high


def _decode(phase: Phase, suffix: str, label: str, records: Sequence[StreamRecord]) -> None:
    """Decode of each turn, and of all of them weighted by tokens: their tokens divided by their decode time."""
    timed = [(rate, record) for record in records if (rate := decode_rate(record))]
    phase.metric(f"stream{suffix}", f"{label}, each turn", [rate for rate, _ in timed], "tok/s", "higher")
    tokens = [(record.output_tokens or 0) - record.first_tokens for _, record in timed]
    seconds = sum(record.arrivals[-1].t - record.arrivals[0].t for _, record in timed)
    weighted = [sum(tokens) / seconds] if seconds else []
    phase.metric(f"weighted{suffix}", f"{label}, by tokens", weighted, "tok/s", "higher")


def _range(low: int, high: int) -> str:
    if high == OPEN:
        return f"{low / 1000:g}K and more"
    return f"{low / 1000:g}K to {high / 1000:g}K"


KIND = Kind("replay", Settings, run)
