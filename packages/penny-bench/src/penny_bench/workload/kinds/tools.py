"""Tool cases: conversations with tools whose results are known beforehand, and three outcomes of every reply."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from penny_bench.cases.tools import (
    CALLS,
    EXACT,
    LITERAL,
    PROTOCOL,
    QUOTED,
    SCHEMA,
    SEMANTIC,
    ToolCase,
    continued,
    outcomes,
    protocol_checks,
    user_message,
)
from penny_bench.client import StreamRecord
from penny_bench.load import Check, RunRequest
from penny_bench.workload.bench import Bench, Phase
from penny_bench.workload.kinds import Kind

SUITES = {"calls": CALLS, "quoted": QUOTED}


class Settings(BaseModel):
    """Attributes:
    suite: `calls`, 30 invocations over 16 cases, or `quoted`, 10 cases with the protocol's own markup.
    cases: numbers of the cases to run, such as "07" or "15a"; all without.
    tokens: most tokens of a reply, its reasoning included.
    long_tokens: length of the history of the case with a long one, about.
    effort: `reasoning_effort` of every request; not sent if empty.
    repeats: how often everything is run.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    suite: Literal["calls", "quoted"] = "calls"
    cases: tuple[str, ...] = ()
    tokens: int = Field(default=8192, ge=1)
    long_tokens: int = Field(default=32_768, ge=0)
    effort: str = ""
    repeats: int = Field(default=1, ge=1)

    @field_validator("cases")
    @classmethod
    def _known(cls, cases: tuple[str, ...]) -> tuple[str, ...]:
        numbers = [case.name.split()[0] for suite in SUITES.values() for case in suite]
        for name in cases:
            if name not in numbers:
                raise ValueError(f"there is no case {name!r}; the cases are {', '.join(numbers)}")
        return cases


async def run(bench: Bench, settings: Settings) -> None:
    """See `Kind.run`."""
    chosen = [
        case
        for case in SUITES[settings.suite]
        if not settings.cases or case.name.split()[0] in settings.cases
    ]
    alone = [case for case in chosen if not case.together]
    together = [case for case in chosen if case.together]
    requests: list[RunRequest] = []
    for number in range(settings.repeats):
        suffix = f" {number + 1}" if settings.repeats > 1 else ""
        if alone:
            total = sum(len(case.invocations) for case in alone)
            async with bench.phase(
                f"one{suffix}", f"one conversation at a time{suffix}", streams=1, total=total, cached=True
            ) as phase:
                for case in alone:
                    await _converse(bench, phase, settings, case)
                requests += phase.requests
        if together:
            async with bench.phase(
                f"together{suffix}",
                f"{len(together)} conversations at once{suffix}",
                streams=len(together),
                total=sum(len(case.invocations) for case in together),
                cached=True,
            ) as phase:
                await asyncio.gather(*(_converse(bench, phase, settings, case) for case in together))
                requests += phase.requests
    add_outcomes(bench, requests)


def add_outcomes(bench: Bench, requests: Sequence[RunRequest]) -> None:
    """The metrics of tool cases: how many invocations had each outcome right, and kept to the protocol."""
    total = len(requests)
    passed = Counter(check.name for request in requests for check in request.checks if check.passed)
    for key, label, name in (
        ("literal", "literal outcomes (automatic)", LITERAL),
        ("exact_calls", "exact calls", EXACT),
        ("semantic", "semantic outcomes", SEMANTIC),
    ):
        bench.add_metric(None, key, label, [float(passed[name])], f"of {total}", "higher")
    add_protocol(bench, requests)
    spent = [request.record.output_tokens for request in requests if request.record.failure is None]
    bench.add_metric(
        None, "tokens", "completion tokens", [float(sum(n or 0 for n in spent))], "tokens", "lower"
    )
    cut = sum(request.record.finish_reason == "length" for request in requests)
    if cut:
        bench.note(f"{cut} of {total} replies were cut off at the most tokens that were asked for.")


def add_protocol(bench: Bench, requests: Sequence[RunRequest]) -> None:
    """The metrics of what holds of any case: replies within the protocol, and calls that fit their schemas."""
    clean = float(sum(kept_protocol(request) for request in requests))
    bench.add_metric(
        None, "protocol", "replies within the protocol", [clean], f"of {len(requests)}", "higher"
    )
    fits = [bool(check.passed) for request in requests for check in request.checks if check.name == SCHEMA]
    label = "replies whose calls fit the schemas"
    bench.add_metric(None, "schema", label, [float(sum(fits))] if fits else [], f"of {len(fits)}", "higher")


def kept_protocol(request: RunRequest) -> bool:
    """Whether the request succeeded and none of its protocol checks failed."""
    return request.record.failure is None and all(c.passed for c in request.checks if c.name in PROTOCOL)


def fields(tools: Sequence[Any], effort: str) -> dict[str, Any]:
    """Fields of a request with tools."""
    return {"tools": list(tools), **({"reasoning_effort": effort} if effort else {})}


async def _converse(bench: Bench, phase: Phase, settings: Settings, case: ToolCase) -> None:
    messages: list[Any] = _filled(case, partial(bench.prompt, max(1, settings.long_tokens // 6)))
    ids: set[str] = set()
    for turn, wanted in enumerate(case.invocations):
        if wanted.user is not None:
            messages = [*messages, user_message(wanted.user)]

        def judge(
            record: StreamRecord, wanted: Any = wanted, earlier: frozenset[str] = frozenset(ids)
        ) -> list[Check]:
            assert record.reply is not None
            return [
                *outcomes(case.name, wanted, record.reply, case.tools),
                *protocol_checks(case.name, record, case.tools, earlier, case.quotes),
            ]

        body = bench.chat(messages, settings.tokens, **fields(case.tools, settings.effort))
        request = await phase.send(body, case=case.name, turn=turn, judge=judge)
        right = any(check.name == SEMANTIC and check.passed for check in request.checks)
        reply = request.record.reply
        if reply and request.record.failure is None:
            ids |= {call.id for call in reply.tool_calls}
        messages = continued(messages, wanted, reply, right, case.tools)


def _filled(case: ToolCase, passage: Callable[[], str]) -> list[Any]:
    """The history with passages where it wants some; their first line, which asks for something, is left out."""
    filled = []
    for message in case.history:
        content = message["content"]
        while "{filler}" in content:
            content = content.replace("{filler}", passage().split("\n\n", 1)[1], 1)
        filled.append({**message, "content": content})
    return filled


KIND = Kind("tools", Settings, run)
