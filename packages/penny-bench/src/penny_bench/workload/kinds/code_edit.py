"""Code edits: a model gives back a whole file with one change, so that most of what it writes stands in the prompt."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from penny_bench.cases.code_edit import EditCase, Edited, edit_cases, read_edited
from penny_bench.client import StreamRecord
from penny_bench.load import Check, RunRequest
from penny_bench.measure.rates import decode_rate
from penny_bench.workload.bench import Bench, Phase
from penny_bench.workload.kinds import Kind
from penny_bench.workload.speculation import summed


class Settings(BaseModel):
    """Attributes:
    cases: names of the cases to run; all without.
    tokens: most tokens of a reply, its reasoning included.
    effort: `reasoning_effort` of every request; not sent if empty.
    runs, warmups: how often each case is run, and requests before with the first.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    cases: tuple[str, ...] = ()
    tokens: int = Field(default=8192, ge=1)
    effort: str = ""
    runs: int = Field(default=3, ge=1)
    warmups: int = Field(default=1, ge=0)

    @field_validator("cases")
    @classmethod
    def _known(cls, cases: tuple[str, ...]) -> tuple[str, ...]:
        names = [case.name for case in edit_cases()]
        for name in cases:
            if name not in names:
                raise ValueError(f"there is no case {name!r}; the cases are {', '.join(names)}")
        return cases


async def run(bench: Bench, settings: Settings) -> None:
    """See `Kind.run`."""
    chosen = [case for case in edit_cases() if not settings.cases or case.name in settings.cases]
    if settings.warmups:
        async with bench.phase("warm-up", "warm-up", warmup=True, streams=1, total=settings.warmups) as phase:
            for _ in range(settings.warmups):
                await _send(bench, phase, settings, chosen[0])
    total = settings.runs * len(chosen)
    async with bench.phase("edit", f"{len(chosen)} edits", streams=1, total=total) as phase:
        for _ in range(settings.runs):
            for case in chosen:
                await _send(bench, phase, settings, case)
    _metrics(phase, {case.name: case for case in chosen})


async def _send(bench: Bench, phase: Phase, settings: Settings, case: EditCase) -> None:
    fields: dict[str, Any] = {"reasoning_effort": settings.effort} if settings.effort else {}

    def judge(record: StreamRecord) -> Sequence[Check]:
        assert record.reply is not None
        return read_edited(case, record.reply.content).checks(case)

    body = bench.chat(bench.first_line() + case.request, settings.tokens, **fields)
    await phase.send(body, case=case.name, lone=True, judge=judge)


def _metrics(phase: Phase, cases: dict[str, EditCase]) -> None:
    requests = phase.requests
    of = f"of {len(requests)}"
    pairs = [(request.record, edited) for request in requests if (edited := _edited(request, cases))]
    records, edits = [record for record, _ in pairs], [edited for _, edited in pairs]
    phase.metric(
        "code", "edits with the right program", [float(sum(e.same_code for e in edits))], of, "higher"
    )
    phase.metric("text", "edits right to the byte", [float(sum(e.same_text for e in edits))], of, "higher")
    phase.metric(
        "similarity", "similarity with the right file", [100 * e.similarity for e in edits], "%", "higher"
    )
    wrong = [float(sum(e.wrong_lines for e in edits))] if edits else []
    phase.metric("wrong_lines", "lines that differ from the right files", wrong, "lines", "lower")
    phase.metric("stream", "decode", [decode_rate(record) for record in records], "tok/s", "higher")
    phase.metric("seconds", "whole request", [r.ended - r.sent for r in records], "s", "lower")
    phase.metric("ttft", "TTFT", [record.ttft for record in records], "s", "lower")
    output = [float(record.output_tokens) for record in records if record.output_tokens is not None]
    phase.metric("output", "output", output, "tokens", None)
    if told := summed(record.speculation for record in records):
        phase.metric("acceptance_length", "acceptance length", [told.acceptance_length], "tokens", None)
    cut = sum(record.finish_reason == "length" for record in records)
    if cut:
        phase.bench.note(
            f"{cut} of {len(requests)} replies were cut off at the most tokens that were asked for."
        )


def _edited(request: RunRequest, cases: dict[str, EditCase]) -> Edited | None:
    record = request.record
    if record.failure or record.reply is None or request.case is None:
        return None
    return read_edited(cases[request.case], record.reply.content)


KIND = Kind("code-edit", Settings, run)
