"""A scripted session: an agent that works through an archive with tools, whose results are long real texts."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from penny_bench.cases.replay.session import Message, Session, Turn
from penny_bench.text import Segment

TASKS = (
    "Go through the boxes of the archive one after another. Say in a few sentences what the pages that you have just "
    "been given are about and in which language they are, then read on where it seems most useful.",
    "Good. Before you go on: which of the persons named so far matter most, and why? Then read on.",
    "Compare the last two boxes with each other, in tone and in what they describe. Then read on.",
    "Write down what you would tell a visitor who asks what this archive holds, so far. Then read on.",
    "List five places that occur in the last pages, one a line, with what happens there. Then read on.",
)
SYSTEM = (
    "You are the assistant of a small archive. You read its boxes with the tools that you have and report on them "
    "in plain words. The pages come as they were written, in many languages, some of them as program code. Never "
    "invent what the pages do not say. Answer in English, in two or three paragraphs."
)
REMARKS = (
    "These pages continue what the box before began; I read on in the next one.",
    "The names here are new. The register should tell where else they occur, so I open the following pages.",
    "Nothing in this part answers the question yet, but the place and the time become clearer. I go on.",
    "This is the middle of a longer piece. To see how it ends I take the next pages.",
    "The language changes here. I note that and read on from where these pages end.",
    "A good deal of talk and few events; I keep the two turns that matter and continue.",
)


EVERY = 4
"""Turns between two messages of the user."""


def tools() -> tuple[dict[str, Any], ...]:
    """The tools that the agent has."""
    pages = {
        "box": {"type": "integer", "description": "Number of the box."},
        "first": {"type": "integer", "description": "First page."},
        "last": {"type": "integer", "description": "Last page."},
    }
    words = {"words": {"type": "string", "description": "What to look for."}}
    return (
        _tool("read_pages", "Read pages of a box.", pages),
        _tool("search_register", "Look something up in the register of all boxes.", words),
    )


def turn_sizes(total: float, turns: int, draw: Random) -> list[float]:
    """Tokens that each turn adds, in all `total`: unequal, as the results of tools are, with a long tail."""
    weights = [math.exp(draw.gauss(0.0, 0.8)) for _ in range(turns)]
    return [total * weight / sum(weights) for weight in weights]


def cut(segments: Sequence[Segment], sizes: Sequence[float]) -> list[str]:
    """Consecutive pieces of a text with about the given numbers of tokens."""
    rest = [(segment.text, segment.rate) for segment in reversed(segments)]
    pieces = []
    for size in sizes:
        parts, left = [], size
        while rest and left > 0:
            text, rate = rest.pop()
            characters = max(1, round(left / rate))
            parts.append(text[:characters])
            left -= min(characters, len(text)) * rate
            if characters < len(text):
                rest.append((text[characters:], rate))
        pieces.append("".join(parts))
    return pieces


def scripted_session(
    name: str, first_line: str, results: Sequence[str], draw: Random, with_tools: bool = True
) -> Session:
    """A session with as many turns as there are results of tools.

    Args:
        name: of the session.
        first_line: begins its first message, so that no cache knows the session.
        results: what the tool gives before each request.
        draw: decides on boxes, pages and remarks.
        with_tools: whether results come as answers to tool calls; else they come in messages of the user.
    """
    calls = _calls(len(results), draw)
    history: list[list[Message]] = [
        [{"role": "system", "content": first_line + SYSTEM}],
        *([] for _ in results[1:]),
    ]
    turns: list[Turn] = []
    for number, (result, added) in enumerate(zip(results, history, strict=True)):
        task, call = _task(number), calls[number]
        pages = f"{call.title}\n\n{result}"
        if not with_tools:
            added.append({"role": "user", "content": f"{pages}\n\n{task or 'Go on.'}"})
        elif task:
            added += [{"role": "user", "content": task}, call.message("I begin here."), call.answer(pages)]
        else:  # the call stands in the reply before
            added.append(call.answer(pages))
        remark = draw.choice(REMARKS)
        follows = with_tools and number + 1 < len(results) and not _task(number + 1)
        reply = calls[number + 1].message(remark) if follows else {"role": "assistant", "content": remark}
        turns.append(Turn(tuple(added), reply))
    return Session(name, tuple(turns), tools() if with_tools else ())


@dataclass(frozen=True)
class _Call:
    number: int
    box: int
    first: int
    last: int

    @property
    def title(self) -> str:
        return f"Box {self.box}, pages {self.first} to {self.last}"

    def message(self, remark: str) -> Message:
        arguments = json.dumps({"box": self.box, "first": self.first, "last": self.last})
        function = {"name": "read_pages", "arguments": arguments}
        call = {"id": f"call_{self.number}", "type": "function", "function": function}
        return {"role": "assistant", "content": remark, "tool_calls": [call]}

    def answer(self, pages: str) -> Message:
        return {"role": "tool", "tool_call_id": f"call_{self.number}", "content": pages}


def _calls(count: int, draw: Random) -> list[_Call]:
    box, page = draw.randrange(1, 90), 1
    calls = []
    for number in range(count):
        if draw.random() < 0.25:
            box, page = box + 1, 1
        last = page + draw.randrange(2, 11)
        calls.append(_Call(number, box, page, last))
        page = last + 1
    return calls


def _task(number: int) -> str:
    """What the user says before a request; "" for most."""
    return TASKS[number // EVERY % len(TASKS)] if number % EVERY == 0 else ""


def _tool(name: str, description: str, properties: dict[str, Any]) -> dict[str, Any]:
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {"type": "object", "properties": properties, "required": list(properties)},
        },
    }
