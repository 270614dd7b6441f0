"""Reasoning: eight cases of one or two requests, judged by a rubric of which a program decides a part."""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from penny_bench.cases.reasoning import CASES, POINTS, WARMUPS, Question, ReasoningCase, rubric_checks
from penny_bench.cases.tools.history import assistant_message
from penny_bench.client import StreamRecord
from penny_bench.load import Check, RunRequest
from penny_bench.workload.bench import Bench, Phase
from penny_bench.workload.kinds import Kind


class Settings(BaseModel):
    """Attributes:
    cases: numbers of the cases to run, such as "C3"; all without.
    profile: users at once, group by group; each user has one case, and cases that are left run one at a time.
    tokens: most tokens of a reply, its reasoning included.
    effort: `reasoning_effort` of every request; not sent if empty.
    warmups: requests before, not judged.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    cases: tuple[str, ...] = ()
    profile: tuple[int, ...] = Field(default=(1, 3, 3, 1), min_length=1)
    tokens: int = Field(default=65_536, ge=1)
    effort: str = ""
    warmups: int = Field(default=2, ge=0)

    @field_validator("cases")
    @classmethod
    def _known(cls, cases: tuple[str, ...]) -> tuple[str, ...]:
        numbers = [case.name.split()[0] for case in CASES]
        for name in cases:
            if name not in numbers:
                raise ValueError(f"there is no case {name!r}; the cases are {', '.join(numbers)}")
        return cases

    @field_validator("profile")
    @classmethod
    def _users(cls, profile: tuple[int, ...]) -> tuple[int, ...]:
        if min(profile) < 1:
            raise ValueError("each group has at least one user")
        return profile


async def run(bench: Bench, settings: Settings) -> None:
    """See `Kind.run`."""
    cases = [case for case in CASES if not settings.cases or case.name.split()[0] in settings.cases]
    if settings.warmups:
        async with bench.phase("warm-up", "warm-up", warmup=True, streams=1, total=settings.warmups) as phase:
            for number in range(settings.warmups):
                text = bench.first_line() + WARMUPS[number % len(WARMUPS)]
                await phase.send(bench.chat(text, settings.tokens, **_fields(settings)))
    requests: list[RunRequest] = []
    for number, group in enumerate(groups(cases, settings.profile), 1):
        names = ", ".join(case.name.split()[0] for case in group)
        users = f"{len(group)} user{'s' if len(group) > 1 else ''}"
        total = sum(len(case.questions) for case in group)
        async with bench.phase(
            f"group {number}", f"{users}: {names}", streams=len(group), total=total, cached=True
        ) as phase:
            await asyncio.gather(*(_discuss(bench, phase, settings, case) for case in group))
            requests += phase.requests
    _metrics(bench, requests)


def groups(cases: Sequence[ReasoningCase], profile: Sequence[int]) -> list[list[ReasoningCase]]:
    """The cases in order, in groups of the sizes of the profile; those left over are alone."""
    left = list(cases)
    made = []
    for users in (*profile, *([1] * len(left))):
        if left:
            made.append(left[:users])
            left = left[users:]
    return made


async def _discuss(bench: Bench, phase: Phase, settings: Settings, case: ReasoningCase) -> None:
    messages: list[Any] = list(case.history)
    for turn, question in enumerate(case.questions):
        messages = [*messages, {"role": "user", "content": question.prompt}]

        def judge(record: StreamRecord, question: Question = question) -> list[Check]:
            assert record.reply is not None
            return rubric_checks(case.name, question, record.reply.content)

        body = bench.chat(messages, settings.tokens, **_fields(settings))
        request = await phase.send(body, case=case.name, turn=turn, judge=judge)
        if request.record.failure or request.record.reply is None:
            _nothing(phase, request, case, case.questions[turn:])
            return
        messages = [*messages, assistant_message(request.record.reply)]


def _nothing(phase: Phase, request: RunRequest, case: ReasoningCase, questions: Sequence[Question]) -> None:
    """Give no points for questions without a reply, so that the whole stays a whole."""
    missing = [
        Check(case.name, item.name, False, "There is no reply.", 0.0, POINTS)
        for question in questions
        for item in question.items
    ]
    if len(request.checks) == 1:  # of a resumed run they are there already
        place = phase.requests.index(request)
        phase.requests[place] = replace(request, checks=(*request.checks, *missing))


def _metrics(bench: Bench, requests: Sequence[RunRequest]) -> None:
    checks = [check for request in requests for check in request.checks if check.of]
    decided = [check for check in checks if check.passed is not None]
    open_points = sum(check.of for check in checks) - sum(check.of for check in decided)
    if decided:
        points, of = sum(check.points for check in decided), sum(check.of for check in decided)
        bench.add_metric(None, "program_points", "points by program", [points], f"of {of:g}", "higher")
    if open_points:
        bench.note(
            f"{open_points:g} of {sum(check.of for check in checks):g} points are for a person to give: "
            "penny-bench grade writes a blind sheet, and reads the marks back."
        )
    done = [request.record for request in requests if request.record.failure is None]
    tokens = float(sum(record.output_tokens or 0 for record in done))
    seconds = sum(record.ended - record.sent for record in done)
    bench.add_metric(None, "tokens", "completion tokens", [tokens], "tokens", "lower")
    rates = [tokens / seconds] if seconds > 0 else []
    bench.add_metric(None, "request_rate", "tokens per request-second", rates, "tok/s", "higher")
    by_case: dict[str, list[StreamRecord]] = defaultdict(list)
    for request in requests:
        by_case[request.case or ""].append(request.record)
    for name, records in sorted(by_case.items()):
        key = name.split()[0].lower()
        if all(record.failure is None for record in records):
            wall = records[-1].ended - records[0].sent
            spent = float(sum(record.output_tokens or 0 for record in records))
            bench.add_metric(None, f"seconds_{key}", f"{name}, wall time", [wall], "s", "lower")
            bench.add_metric(None, f"tokens_{key}", f"{name}, tokens", [spent], "tokens", "lower")
    cut = sum(record.finish_reason == "length" for record in done)
    if cut:
        bench.note(f"{cut} of {len(requests)} replies were cut off at the most tokens that were asked for.")


def _fields(settings: Settings) -> dict[str, Any]:
    return {"reasoning_effort": settings.effort} if settings.effort else {}


KIND = Kind("reasoning", Settings, run)
