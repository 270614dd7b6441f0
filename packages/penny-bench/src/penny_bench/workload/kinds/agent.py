"""Agent control: a model that acts on a small world through tools until it says that it is done."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from penny_bench.cases.agent import WORLDS, World
from penny_bench.cases.tools import (
    arguments_of,
    assistant_message,
    protocol_checks,
    tool_message,
    user_message,
)
from penny_bench.client import StreamRecord
from penny_bench.load import Check, RunRequest
from penny_bench.workload.bench import Bench, Phase
from penny_bench.workload.kinds import Kind
from penny_bench.workload.kinds.tools import add_protocol, fields

STATE, ONCE, ANSWER, PATH = (
    "the world is as the task wants it",
    "nothing was done twice",
    "the last reply is the answer",
    "as few calls as needed, one a turn",
)
"""Names of the checks of a whole task."""


class Settings(BaseModel):
    """Attributes:
    tasks: worlds to act on, each a conversation.
    tokens: most tokens of a turn, its reasoning included.
    turns: most turns of a task.
    effort: `reasoning_effort` of every request; not sent if empty.
    runs: how often each task is done.
    """

    model_config = ConfigDict(extra="forbid", frozen=True)

    tasks: tuple[Literal["shop", "files"], ...] = Field(default=("shop", "files"), min_length=1)
    tokens: int = Field(default=8192, ge=1)
    turns: int = Field(default=12, ge=1)
    effort: str = ""
    runs: int = Field(default=1, ge=1)


async def run(bench: Bench, settings: Settings) -> None:
    """See `Kind.run`."""
    requests: list[RunRequest] = []
    for number in range(settings.runs):
        for task in settings.tasks:
            suffix = f" {number + 1}" if settings.runs > 1 else ""
            async with bench.phase(
                f"{task}{suffix}", f"the task {task}{suffix}", streams=1, cached=True
            ) as phase:
                calls = await _act(bench, phase, settings, WORLDS[task]())
            seconds = phase.requests[-1].record.ended - phase.requests[0].record.sent
            phase.metric("turns", "turns", [float(len(phase.requests))], "turns", "lower")
            phase.metric("calls", "calls", [float(calls)], "calls", "lower")
            phase.metric("seconds", "whole task", [seconds], "s", "lower")
            requests += phase.requests
    held = [check for request in requests for check in request.checks if check.of]
    points = sum(check.points for check in held)
    bench.add_metric(
        None, "points", "points of the tasks", [points], f"of {sum(c.of for c in held):g}", "higher"
    )
    add_protocol(bench, requests)


async def _act(bench: Bench, phase: Phase, settings: Settings, world: World) -> int:
    """Let the model act until it calls nothing more; how many calls it made."""
    messages: list[Any] = [user_message(world.task)]
    ids: set[str] = set()
    calls = 0
    for turn in range(settings.turns):

        def judge(record: StreamRecord, earlier: frozenset[str] = frozenset(ids)) -> list[Check]:
            return protocol_checks(world.name, record, world.tools, earlier)

        body = bench.chat(messages, settings.tokens, **fields(world.tools, settings.effort))
        request = await phase.send(body, case=world.name, turn=turn, judge=judge)
        reply = request.record.reply
        if request.record.failure or reply is None or not reply.tool_calls:
            break
        messages = [*messages, assistant_message(reply)]
        for call in reply.tool_calls:
            result = world.call(call.name, arguments_of(call.arguments))
            messages = [*messages, tool_message(call.id, result)]
        ids |= {call.id for call in reply.tool_calls}
        calls += len(reply.tool_calls)
    last = phase.requests[-1]
    if not any(check.name == STATE for check in last.checks):  # of a resumed run they are there already
        checks = task_checks(world, last.record, calls, turns=len(phase.requests))
        phase.requests[-1] = replace(last, checks=(*last.checks, *checks))
    return calls


def task_checks(world: World, last: StreamRecord, calls: int, turns: int) -> list[Check]:
    """Judge a task that is over.

    Args:
        world: as the model left it.
        last: the last reply.
        calls, turns: how many were made.
    """
    words = (
        last.reply.content.strip() if last.reply and not last.failure and not last.reply.tool_calls else None
    )
    said = words is not None and re.search(rf"(?<![\w-]){re.escape(world.answer)}(?![\w-])", words)
    answer = f"It is {'no reply in words' if words is None else repr(words[-200:])}, not {world.answer!r}."
    least = f"{calls} calls were made in {turns} turns; {world.calls} in {world.calls + 1} do."
    wrong = {
        STATE: world.missing(),
        ONCE: world.repeated() if world.changes else "Nothing was done at all.",
        ANSWER: "" if said else answer,
        PATH: "" if (calls, turns) == (world.calls, world.calls + 1) else least,
    }
    return [Check(world.name, name, not text, text, float(not text), 1.0) for name, text in wrong.items()]


KIND = Kind("agent", Settings, run)
