"""Structured output: whether replies fit their schemas, and what the grammar costs."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from penny_bench.cases.structured import SYNTAX, VALID, SchemaCase, schema_cases, structure_checks
from penny_bench.load import Check, RunRequest
from penny_bench.measure import decode_rate
from penny_bench.workload.bench import Bench, Phase
from penny_bench.workload.kinds import Kind

TAKEN = "the response_format is taken"
REFUSED = (400, 404, 415, 422, 501)
"""HTTP status of a server that does not know a response_format."""


class Settings(BaseModel):
    """Attributes:
    cases: names of the schemas; all without.
    tokens: most tokens of a reply, its reasoning included.
    streams: requests at once in the last phase; 0 leaves it out.
    runs: requests for each case and phase.
    warmups: short requests before, without any schema.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    cases: tuple[str, ...] = ()
    tokens: int = Field(default=4096, ge=1)
    streams: int = Field(default=4, ge=0)
    runs: int = Field(default=2, ge=1)
    warmups: int = Field(default=2, ge=0)

    @field_validator("cases")
    @classmethod
    def _known(cls, cases: tuple[str, ...]) -> tuple[str, ...]:
        names = [case.name for case in schema_cases()]
        for name in cases:
            if name not in names:
                raise ValueError(f"there is no case {name!r}; the cases are {', '.join(names)}")
        return cases


async def run(bench: Bench, settings: Settings) -> None:
    """See `Kind.run`.

    The same prompts, schema text included, are sent without a `response_format`; with a schema that the
    server has not seen (its title is new); with the same schema again, whose grammar it may have kept; with
    `json_object`; and with schemas at once. Each prompt has a first line of its own, so that none is cached.
    """
    cases = [case for case in schema_cases() if not settings.cases or case.name in settings.cases]
    total = len(cases) * settings.runs
    if settings.warmups:
        async with bench.phase("warm-up", "warm-up", warmup=True, streams=1, total=settings.warmups) as phase:
            for _ in range(settings.warmups):
                await phase.send(bench.chat(bench.first_line() + cases[0].prompt, min(64, settings.tokens)))
    ttfts = {}
    for name, label in (
        ("plain", "without a schema"),
        ("new", "with a new schema"),
        ("known", "with a known schema"),
        ("object", "as json_object"),
    ):
        async with bench.phase(name, label, streams=1, total=total) as phase:
            for number in range(settings.runs):
                for case in cases:
                    await _ask(bench, phase, settings, case, _format(bench, name, case, number))
        ttfts[name] = [request.record.ttft for request in phase.requests]
        _metrics(phase, name)
    if settings.streams:
        await _at_once(bench, settings, cases)
    for name in ("new", "known", "object"):
        pairs = zip(ttfts[name], ttfts["plain"], strict=True)
        extra = [
            with_it - without for with_it, without in pairs if with_it is not None and without is not None
        ]
        bench.add_metric(name, "ttft_extra", "TTFT beyond that without a schema", extra, "s", "lower")


async def _at_once(bench: Bench, settings: Settings, cases: Sequence[SchemaCase]) -> None:
    work = [(case, number) for number in range(settings.runs) for case in cases]
    places = asyncio.Semaphore(settings.streams)

    async def one(case: SchemaCase, number: int) -> None:
        async with places:
            await _ask(bench, phase, settings, case, _format(bench, "known", case, number))

    label = f"{settings.streams} schemas at once"
    async with bench.phase("together", label, streams=settings.streams, total=len(work)) as phase:
        await asyncio.gather(*(one(case, number) for case, number in work))
    _metrics(phase, "together")


def _format(bench: Bench, name: str, case: SchemaCase, number: int) -> dict[str, Any] | None:
    if name == "plain":
        return None
    if name == "object":
        return {"type": "json_object"}
    # Servers keep grammars by the text of the schema. The title changes nothing but that.
    schema = {"title": f"{case.name} {bench.seed}-{number}", **case.schema}
    return {"type": "json_schema", "json_schema": {"name": case.name, "strict": True, "schema": schema}}


async def _ask(
    bench: Bench, phase: Phase, settings: Settings, case: SchemaCase, form: Mapping[str, Any] | None
) -> None:
    text = (
        f"{bench.first_line()}{case.prompt} Reply with only a JSON object that fits this JSON Schema:\n"
        f"{json.dumps(case.schema, ensure_ascii=False)}"
    )
    fields: dict[str, Any] = {} if form is None else {"response_format": form}
    body = bench.chat(text, settings.tokens, **fields)
    if form is None:
        await phase.send(body, case=case.name, keep=True)
        return
    strict = form["type"] == "json_schema"
    request = await phase.send(
        body, case=case.name, judge=lambda record: structure_checks(case, record, strict)
    )
    failure = request.record.failure
    if failure and failure.status in REFUSED:
        place = phase.requests.index(request)
        taken = Check(case.name, TAKEN, False, failure.message)
        phase.requests[place] = replace(request, checks=(taken,))
        bench.note(
            f"The server refused some response_format of the type {form['type']}. Those requests count as refused, "
            "not as invalid."
        )


def _metrics(phase: Phase, name: str) -> None:
    requests: list[RunRequest] = phase.requests
    if name != "plain":
        refused = sum(check.name == TAKEN for request in requests for check in request.checks)
        wanted = SYNTAX if name == "object" else VALID
        valid = sum(check.name == wanted and bool(check.passed) for r in requests for check in r.checks)
        cut = sum(request.record.finish_reason == "length" for request in requests)
        ended = len(requests) - refused - cut
        phase.metric(
            "valid", "valid among ended replies", [valid / ended] if ended else [], "share", "higher"
        )
        phase.metric("refused", "refused requests", [float(refused)], f"of {len(requests)}", "lower")
        phase.metric("cut", "replies cut off", [float(cut)], f"of {len(requests)}", "lower")
    phase.metric("ttft", "TTFT", [request.record.ttft for request in requests], "s", "lower")
    rates = [decode_rate(request.record) for request in requests]
    phase.metric("stream", "decode, each", rates, "tok/s", "higher")


KIND = Kind("structured", Settings, run)
