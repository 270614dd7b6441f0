"""What a mock server answers: a list of steps, each a pause and then bytes."""

from __future__ import annotations

import json
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Literal


@dataclass(frozen=True)
class Step:
    """After `delay` seconds, send `data`: an event as a dict, or raw bytes as they are.

    The delay counts from when the step before was due, or the request came; an infinite one never ends. `tokens`
    is how many tokens the event brings, for the log.
    """

    delay: float
    data: dict[str, Any] | bytes
    tokens: int = 0

    def encode(self) -> bytes:
        """The bytes of the event."""
        if isinstance(self.data, bytes):
            return self.data
        return b"data: " + json.dumps(self.data, separators=(",", ":")).encode() + b"\n\n"

    @cached_property
    def chunk(self) -> bytes:
        """The same as a chunk of HTTP; nothing if there are no bytes, since an empty chunk would end the body."""
        data = self.encode()
        return b"%x\r\n%b\r\n" % (len(data), data) if data else b""


@dataclass(frozen=True)
class Refusal:
    """Answer with an HTTP error instead of a stream."""

    status: int
    message: str


@dataclass(frozen=True)
class Cut:
    """After `delay` seconds, drop the connection in the middle of the stream."""

    delay: float = 0.0


Script = Refusal | list[Step | Cut]


def chunk(
    delta: dict[str, Any] | None = None, finish: str | None = None, completion_tokens: int | None = None
) -> dict[str, Any]:
    """A chat completion chunk; with a running usage count if `completion_tokens` is given."""
    event: dict[str, Any] = {
        "id": "mock",
        "object": "chat.completion.chunk",
        "created": 0,
        "model": "mock",
        "choices": [{"index": 0, "delta": delta or {}, "finish_reason": finish}],
    }
    if completion_tokens is not None:
        event["usage"] = {"completion_tokens": completion_tokens}
    return event


def token_script(
    *,
    tokens: int,
    per_chunk: int = 1,
    first: float = 0.0,
    interval: float = 0.0,
    prompt_tokens: int = 16,
    usage: Literal["final", "running", "none"] = "final",
    kind: Literal["content", "reasoning_content"] = "content",
    cached_tokens: int | None = None,
    reasoning: int = 0,
) -> list[Step | Cut]:
    """A stream of `tokens` tokens, `per_chunk` in each event, at even intervals.

    Args:
        tokens: completion tokens, as the usage will say.
        per_chunk: tokens in an event; the last event may have fewer.
        first: pause before the first event with text, s.
        interval: pause before each further one, s.
        prompt_tokens: as the usage will say.
        usage: in a closing event, beside every event too, or not at all.
        kind: the field of the delta that carries the text.
        cached_tokens: prompt tokens that came from a cache, as the usage will say; None says nothing.
        reasoning: so many tokens come first as `reasoning_content`, rounded up to whole events.
    """
    steps: list[Step | Cut] = [Step(0.0, chunk({"role": "assistant", "content": ""}))]
    for start in range(0, tokens, per_chunk):
        done = min(start + per_chunk, tokens)
        field = "reasoning_content" if start < reasoning else kind
        event = chunk(
            {field: " tok" * (done - start)}, completion_tokens=done if usage == "running" else None
        )
        steps.append(Step(interval if start else first, event, done - start))
    steps.append(Step(0.0, chunk(finish="length", completion_tokens=tokens if usage == "running" else None)))
    if usage != "none":
        total: dict[str, Any] = {
            "prompt_tokens": prompt_tokens,
            "completion_tokens": tokens,
            "total_tokens": prompt_tokens + tokens,
        }
        if cached_tokens is not None:
            total["prompt_tokens_details"] = {"cached_tokens": cached_tokens}
        if reasoning:
            thought = min(tokens, -(-reasoning // per_chunk) * per_chunk)
            total["completion_tokens_details"] = {"reasoning_tokens": thought}
        steps.append(Step(0.0, {**chunk(), "choices": [], "usage": total}))
    steps.append(Step(0.0, b"data: [DONE]\n\n"))
    return steps
