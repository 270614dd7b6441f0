"""A reply with words, thoughts and tool calls, as a stream."""

from __future__ import annotations

from typing import Any

from penny_bench.client import Reply
from penny_bench.mock.script import Cut, Step, chunk


def reply_script(reply: Reply, finish: str | None = None, size: int = 5) -> list[Step | Cut]:
    """Stream a reply in pieces of `size` characters, each of which counts as one token.

    Args:
        reply: what is said, in the order reasoning, content, calls.
        finish: the `finish_reason`; without, what fits the reply.
        size: characters of an event; names and ids of calls come whole.
    """
    deltas: list[dict[str, Any]] = [{"reasoning_content": part} for part in _pieces(reply.reasoning, size)]
    deltas += [{"content": part} for part in _pieces(reply.content, size)]
    for index, call in enumerate(reply.tool_calls):
        head = {"name": call.name, "arguments": ""}
        deltas.append({"tool_calls": [{"index": index, "id": call.id, "type": "function", "function": head}]})
        deltas += [
            {"tool_calls": [{"index": index, "function": {"arguments": part}}]}
            for part in _pieces(call.arguments, size)
        ]
    tokens = max(1, len(deltas))
    usage = {"prompt_tokens": 16, "completion_tokens": tokens, "total_tokens": 16 + tokens}
    return [
        *(Step(0.0, chunk(delta)) for delta in deltas),
        Step(0.0, chunk(finish=finish or ("tool_calls" if reply.tool_calls else "stop"))),
        Step(0.0, {"object": "chat.completion.chunk", "choices": [], "usage": usage}),
        Step(0.0, b"data: [DONE]\n\n"),
    ]


def _pieces(text: str, size: int) -> list[str]:
    return [text[start : start + size] for start in range(0, len(text), size)]
