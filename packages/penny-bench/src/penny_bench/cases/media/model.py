"""A scenario as data: messages with pictures, questions, and their answers."""

from __future__ import annotations

import base64
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

NAMES = (
    "text",
    "shapes",
    "chart",
    "compare",
    "detail",
    "invoice",
    "order",
    "history",
    "video-order",
    "video-time",
)
"""The ten scenarios."""

Message = Mapping[str, Any]
Part = Mapping[str, Any]


@dataclass(frozen=True)
class Call:
    """A tool call that is due.

    Attributes:
        name, arguments: of the call.
    """

    name: str
    arguments: Mapping[str, Any]


@dataclass(frozen=True)
class Question:
    """One request of a scenario.

    Attributes:
        added: messages before it.
        answer: fields of the JSON object that is due; none where a call is.
        tolerance: of numbers, by field.
        call: the tool call that is due, or None.
        reply: what the history keeps for the answer, where more questions follow.
    """

    added: tuple[Message, ...]
    answer: Mapping[str, Any] = field(default_factory=dict)
    tolerance: Mapping[str, float] = field(default_factory=dict)
    call: Call | None = None
    reply: str = ""


@dataclass(frozen=True)
class Scenario:
    """A scenario.

    Attributes:
        name: of it.
        theme: what it tries, in a sentence.
        medium: what it shows.
        questions: in order.
        tools: offered in every request.
    """

    name: str
    theme: str
    medium: Literal["image", "video"]
    questions: tuple[Question, ...]
    tools: tuple[Mapping[str, Any], ...] = ()


def text_part(text: str) -> Part:
    """Text in a message of several parts."""
    return {"type": "text", "text": text}


def picture_part(png: bytes) -> Part:
    """A picture as a data URL."""
    return {"type": "image_url", "image_url": {"url": _url("image/png", png)}}


def video_part(mp4: bytes) -> Part:
    """A video as a data URL, in the field that SGLang and vLLM take."""
    return {"type": "video_url", "video_url": {"url": _url("video/mp4", mp4)}}


def user(*parts: Part) -> Message:
    """A message of the user."""
    return {"role": "user", "content": list(parts)}


def _url(kind: str, data: bytes) -> str:
    return f"data:{kind};base64,{base64.b64encode(data).decode()}"
