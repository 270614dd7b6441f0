"""A conversation as it grows: the model's own turns where they were right, else the turns that were due.

Every message is made anew and never changed, so that what was sent stays what was sent.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from penny_bench.cases.tools.judge import arguments_of, matched, read_calls
from penny_bench.cases.tools.model import Invocation, Message, Schema
from penny_bench.client import Reply


def user_message(words: str) -> Message:
    """What a user says."""
    return {"role": "user", "content": words}


def assistant_message(reply: Reply) -> Message:
    """A reply as a message of the history, with its reasoning if it had any, as its server takes that.

    Arguments that are no JSON object become `{}`, since servers refuse a history with such; the checks of the
    reply have noted them.
    """
    message: dict[str, Any] = {"role": "assistant", "content": reply.content}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.tool_calls:
        message["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": _sound(call.arguments)},
            }
            for call in reply.tool_calls
        ]
    return message


def tool_message(call_id: str, result: str) -> Message:
    """What a tool answers."""
    return {"role": "tool", "tool_call_id": call_id, "content": result}


def called(name: str, arguments: dict[str, Any], result: str, call_id: str) -> tuple[Message, Message]:
    """A call and its result, as two messages."""
    function = {"name": name, "arguments": json.dumps(arguments, ensure_ascii=False)}
    call = {"id": call_id, "type": "function", "function": function}
    return {"role": "assistant", "content": "", "tool_calls": [call]}, tool_message(call_id, result)


def continued(
    messages: Sequence[Message],
    wanted: Invocation,
    reply: Reply | None,
    right: bool,
    tools: tuple[Schema, ...],
) -> list[Message]:
    """The history with one more turn of the model and the results of its calls.

    Args:
        messages: so far.
        wanted: what was asked.
        reply: what the model said; None if the request failed.
        right: whether its semantic outcome was right. If not, the turn that was due takes its place, so that
            a wrong turn costs its own invocation and not the following ones.
        tools: that were offered.
    """
    if reply and right and all(call.id for call in reply.tool_calls):
        results = matched(wanted.calls, read_calls(reply, tools)) or []
        answers = [
            tool_message(call.id, expected.result)
            for call, expected in zip(reply.tool_calls, results, strict=True)
        ]
        return [*messages, assistant_message(reply), *answers]
    if not wanted.calls:
        return [*messages, {"role": "assistant", "content": wanted.literal}]
    ids = [f"call_{len(messages)}_{place}" for place in range(len(wanted.calls))]
    calls = [
        {
            "id": i,
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.arguments, ensure_ascii=False)},
        }
        for i, call in zip(ids, wanted.calls, strict=True)
    ]
    turn: Message = {"role": "assistant", "content": "", "tool_calls": calls}
    return [*messages, turn, *(tool_message(i, c.result) for i, c in zip(ids, wanted.calls, strict=True))]


def _sound(arguments: str) -> str:
    return arguments if arguments and arguments_of(arguments) is not None else "{}"
