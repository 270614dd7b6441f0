"""Media: ten scenarios with pictures and videos that are drawn from a seed, judged by how they were drawn."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, field_validator

from penny_bench.cases.media import (
    NAMES,
    Message,
    Question,
    Scenario,
    answer_checks,
    picture_part,
    text_part,
    video_part,
)
from penny_bench.client import StreamRecord
from penny_bench.errors import BenchError
from penny_bench.load import Check, RunRequest
from penny_bench.workload.bench import Bench, Phase
from penny_bench.workload.kinds import Kind

FILLERS = 4
"""Texts between a picture and the questions about it, in the scenario `history`."""


class Settings(BaseModel):
    """Attributes:
    scenarios: names of the scenarios to run; all without.
    history_tokens: texts between the picture and the questions of the scenario `history`, about.
    tokens: most tokens of a reply, its reasoning included.
    effort: `reasoning_effort` of every request; not sent if empty.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    scenarios: tuple[str, ...] = ()
    history_tokens: int = Field(default=208_000, ge=0)
    tokens: int = Field(default=8192, ge=1)
    effort: str = ""

    @field_validator("scenarios")
    @classmethod
    def _known(cls, scenarios: tuple[str, ...]) -> tuple[str, ...]:
        for name in scenarios:
            if name not in NAMES:
                raise ValueError(f"there is no scenario {name!r}; the scenarios are {', '.join(NAMES)}")
        return scenarios


async def run(bench: Bench, settings: Settings) -> None:
    """See `Kind.run`."""
    drawing = _drawing()
    chosen = [name for name in NAMES if not settings.scenarios or name in settings.scenarios]
    scenarios = [_drawn(bench, drawing, settings, name) for name in chosen]
    taken = await _probe(bench, drawing, {scenario.medium for scenario in scenarios})
    ran = [scenario for scenario in scenarios if scenario.medium in taken]
    digests = ", ".join(f"{scenario.name} {_digest(scenario)}" for scenario in scenarios)
    bench.note(f"SHA-256 of the pictures and videos, its first 16 digits: {digests}.")
    requests: list[RunRequest] = []
    for name, label, cached in (
        ("media", "pictures and videos", False),
        ("history", "a picture far back", True),
    ):
        some = [scenario for scenario in ran if (scenario.name == "history") == cached]
        if some:
            total = sum(len(scenario.questions) for scenario in some)
            async with bench.phase(name, label, streams=1, total=total, cached=cached) as phase:
                for scenario in some:
                    await _ask(bench, phase, settings, scenario)
            requests += phase.requests
            _times(phase, ran)
    _count(bench, ran, len(chosen), requests)


def _drawing() -> ModuleType:
    try:
        return import_module("penny_bench.cases.media.scenarios")
    except ModuleNotFoundError as error:
        if error.name not in ("PIL", "av"):
            raise
        raise BenchError(
            "The workload media draws its pictures with Pillow and its videos with PyAV, and "
            f"{error.name} is not installed. Install both with pip install 'penny-bench[media]'."
        ) from error


def _drawn(bench: Bench, drawing: ModuleType, settings: Settings, name: str) -> Scenario:
    texts: list[str] = []
    if name == "history":
        each = settings.history_tokens // FILLERS
        texts = [bench.prompt(each).split("\n\n", 1)[1] for _ in range(FILLERS)] if each else []
    scenario = drawing.draw_scenario(name, bench.seed, bench.first_line(), texts)
    assert isinstance(scenario, Scenario)
    return scenario


async def _probe(bench: Bench, drawing: ModuleType, media: set[str]) -> set[str]:
    """The media that the server takes, found out with one small request for each."""
    parts = {
        "image": lambda: picture_part(drawing.probe_picture()),
        "video": lambda: video_part(drawing.probe_video()),
    }
    taken = set()
    async with bench.phase(
        "probe", "what the server takes", warmup=True, streams=1, total=len(media)
    ) as phase:
        for medium in sorted(media):
            content = [parts[medium](), text_part(f"{bench.first_line()}Answer with: yes.")]
            request = await phase.send(bench.chat([{"role": "user", "content": content}], 2), case=medium)
            failure = request.record.failure
            if failure is None:
                taken.add(medium)
            else:
                bench.note(
                    f"The server takes no {medium}s, so these scenarios were left out: {failure.message}"
                )
    return taken


async def _ask(bench: Bench, phase: Phase, settings: Settings, scenario: Scenario) -> None:
    fields: dict[str, Any] = {"reasoning_effort": settings.effort} if settings.effort else {}
    if scenario.tools:
        fields["tools"] = list(scenario.tools)
    history: list[Message] = []
    for turn, question in enumerate(scenario.questions):
        history.extend(question.added)

        def judge(record: StreamRecord, question: Question = question) -> list[Check]:
            assert record.reply is not None
            return answer_checks(scenario.name, question, record.reply)

        body = bench.chat(list(history), settings.tokens, **fields)
        await phase.send(body, case=scenario.name, turn=turn, lone=True, judge=judge)
        history.append({"role": "assistant", "content": question.reply})


def _digest(scenario: Scenario) -> str:
    """Of all pictures and videos, in order: the same seed gives the same with the same Pillow and PyAV."""
    urls = [
        part[part["type"]]["url"]
        for question in scenario.questions
        for message in question.added
        for part in _parts(message)
        if part["type"] != "text"
    ]
    return hashlib.sha256("\n".join(urls).encode()).hexdigest()[:16]


def _parts(message: Message) -> Sequence[Mapping[str, Any]]:
    content = message["content"]
    return content if isinstance(content, list) else ()


def _times(phase: Phase, scenarios: Sequence[Scenario]) -> None:
    media = {scenario.name: scenario.medium for scenario in scenarios}
    for medium in ("image", "video"):
        records = [
            request.record
            for request in phase.requests
            if request.record.failure is None and request.case and media[request.case] == medium
        ]
        phase.metric(f"ttft_{medium}", f"TTFT, {medium}s", [record.ttft for record in records], "s", "lower")
        counts = [None if r.prompt_tokens is None else float(r.prompt_tokens) for r in records]
        phase.metric(f"input_{medium}", f"input, {medium}s", counts, "tokens", None)


def _count(bench: Bench, ran: Sequence[Scenario], chosen: int, requests: Sequence[RunRequest]) -> None:
    of = f"of {chosen}"
    passed = {
        scenario.name: all(
            check.passed for request in requests if request.case == scenario.name for check in request.checks
        )
        for scenario in ran
    }
    bench.add_metric(
        None, "right", "scenarios with every answer right", [float(sum(passed.values()))], of, "higher"
    )
    points = sum(check.points for request in requests for check in request.checks)
    full = sum(len(scenario.questions) for scenario in ran)
    if full:
        bench.add_metric(None, "points", "answers right, in parts", [100 * points / full], "%", "higher")
    bench.add_metric(None, "supported", "scenarios that the server takes", [float(len(ran))], of, "higher")


KIND = Kind("media", Settings, run)
