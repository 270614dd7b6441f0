"""Needles: opaque records hidden in a long text must be given back exactly."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from random import Random
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from penny_bench.cases.needles import Record, ask_all, ask_some, draw_records, hide, read_answer, record_line
from penny_bench.client import StreamRecord
from penny_bench.load import Check, RunRequest
from penny_bench.text import repeated, segments
from penny_bench.workload.bench import Bench, Phase
from penny_bench.workload.kinds import Kind
from penny_bench.workload.kinds.prefill import prefill_rate

INTRODUCTION = (
    "Read the following text with care. Some records are hidden in it; afterwards you are asked for them.\n\n"
)


class Settings(BaseModel):
    """Attributes:
    context: tokens of the whole prompt, about.
    records: hidden records, spread evenly over the tokens of the text.
    ask: how many records a request asks for; 0 for all in one request. The later requests of a text find it cached.
    tokens: most tokens of a reply, its reasoning included.
    effort: `reasoning_effort` of every request; not sent if empty.
    buckets: parts of the text for which the records found are told apart.
    runs: texts, each with its own records.
    cached: whether the server should know the text, as in a second run with the same seed after a restart.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    context: int = Field(default=393_216, ge=256)
    records: int = Field(default=64, ge=1)
    ask: int = Field(default=0, ge=0)
    tokens: int = Field(default=8192, ge=16)
    effort: str = ""
    buckets: int = Field(default=8, ge=1)
    runs: int = Field(default=1, ge=1)
    cached: bool = False


async def run(bench: Bench, settings: Settings) -> None:
    """See `Kind.run`."""
    share = repeated(settings.context, bench.gauge)
    if share > 0.01:
        bench.note(
            f"{share:.0%} of each text comes twice in it: the works are shorter than {settings.context:,} tokens."
        )
    found: dict[int, list[bool]] = defaultdict(list)
    for number in range(settings.runs):
        name = f"text {number + 1}"
        records = draw_records(settings.records, Random(f"needles {bench.seed} {number}"))
        size = settings.ask or settings.records
        groups = [records[start : start + size] for start in range(0, len(records), size)]
        async with bench.phase(
            name,
            f"{settings.records} records in {settings.context:,} tokens",
            streams=1,
            total=len(groups),
            cached=settings.cached or len(groups) > 1,
        ) as phase:
            text = bench.first_line() + INTRODUCTION + _haystack(bench, settings, records, number)
            for group in groups:
                await _ask(bench, phase, settings, text, records, group)
        _metrics(phase, settings, records)
        for record in records:
            bucket = int(record.depth * settings.buckets)
            found[bucket].append(_right(phase.requests, record))
    for bucket in sorted(found):
        low, high = bucket / settings.buckets, (bucket + 1) / settings.buckets
        bench.add_metric(
            None,
            f"depth_{round(100 * low)}",
            f"found at {low:.0%} to {high:.0%} of the text",
            [100 * sum(found[bucket]) / len(found[bucket])],
            "%",
            "higher",
        )


def _haystack(bench: Bench, settings: Settings, records: Sequence[Record], number: int) -> str:
    rate = max(bench.gauge.rates[0], 0.6)  # opaque characters have more tokens than words
    words = len(INTRODUCTION + ask_all(settings.records)) * bench.gauge.rates[0]
    needles = sum(len(record_line(record)) + 4 for record in records) * rate
    tokens = settings.context - bench.gauge.head - words - needles
    return hide(segments(max(tokens, 64), bench.seed, number, bench.gauge), records)


async def _ask(
    bench: Bench,
    phase: Phase,
    settings: Settings,
    text: str,
    records: Sequence[Record],
    group: Sequence[Record],
) -> None:
    question = ask_all(len(records)) if len(group) == len(records) else ask_some(group)
    fields: dict[str, Any] = {"reasoning_effort": settings.effort} if settings.effort else {}

    def judge(record: StreamRecord) -> list[Check]:
        assert record.reply is not None
        answer = read_answer(record.reply.content)
        invented = answer.hallucinated(records)
        detail = f"{invented} of the records given are not in the text." if invented else ""
        return [
            *answer.checks(phase.name, group),
            Check(phase.name, "no invented record", not invented, detail),
        ]

    body = bench.chat(f"{text}\n\n{question}", settings.tokens, **fields)
    await phase.send(body, case=phase.name, lone=True, judge=judge)


def _right(requests: Sequence[RunRequest], record: Record) -> bool:
    return any(
        check.passed
        for request in requests
        for check in request.checks
        if check.name.startswith(f"{record.key} ")
    )


def _metrics(phase: Phase, settings: Settings, records: Sequence[Record]) -> None:
    of = f"of {len(records)}"
    right = sum(_right(phase.requests, record) for record in records)
    phase.metric("right", "records given back exactly", [float(right)], of, "higher")
    good = [request for request in phase.requests if request.record.failure is None]
    invented = [
        read_answer(request.record.reply.content).hallucinated(records)
        for request in good
        if request.record.reply is not None
    ]
    phase.metric(
        "invented", "records not in the text", [float(sum(invented))] if good else [], "records", "lower"
    )
    first = [request.record for request in good[:1]]
    phase.metric("ttft", "TTFT", [record.ttft for record in first], "s", "lower")
    phase.metric(
        "prefill", "prefill, server's span", [prefill_rate(record) for record in first], "tok/s", "higher"
    )
    phase.metric("seconds", "whole request", [r.record.ended - r.record.sent for r in good], "s", "lower")
    counts = [record.prompt_tokens for record in first]
    phase.metric("input", "input", [None if n is None else float(n) for n in counts], "tokens", None)
    cut = sum(request.record.finish_reason == "length" for request in good)
    if cut:
        phase.bench.note(f"{cut} of {len(good)} replies were cut off at {settings.tokens:,} tokens.")


KIND = Kind("needles", Settings, run)
