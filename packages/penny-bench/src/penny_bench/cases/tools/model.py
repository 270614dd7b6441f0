"""A tool case as data: the tools, what is asked, what the tools answer, and what counts as right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Schema = Mapping[str, Any]
Message = Mapping[str, Any]


@dataclass(frozen=True)
class Expect:
    """A call that the model should make.

    Attributes:
        name, arguments: of the call, in the form that counts as literally right.
        result: what the tool answers, in words or JSON.
        patterns: arguments whose text may be any that fully matches, in any case; for the semantic outcome.
        variants: whole arguments that mean the same; for the semantic outcome.
        defaults: arguments that may be left out, or given with this value; for the semantic outcome.
    """

    name: str
    arguments: Mapping[str, Any]
    result: str = ""
    patterns: Mapping[str, str] = field(default_factory=dict)
    variants: Sequence[Mapping[str, Any]] = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Invocation:
    """One request of a case.

    Attributes:
        user: what the user says before it; None where it only follows tool results.
        calls: what the model should call; () where it should answer in words and call nothing.
        ordered: whether the calls must come in this order.
        literal: the reply in words, to the byte but for blanks at its ends.
        says: patterns that a right reply in words holds, in any case.
        never: patterns that no right reply holds.
    """

    user: str | None
    calls: tuple[Expect, ...] = ()
    ordered: bool = False
    literal: str = ""
    says: tuple[str, ...] = ()
    never: tuple[str, ...] = ()


@dataclass(frozen=True)
class ToolCase:
    """A conversation.

    Attributes:
        name: with its number, such as `08 dependency`.
        theme: what it tries, in a sentence.
        tools: offered in every request, in the form of the protocol.
        invocations: its requests, in order.
        history: messages before the first; `{filler}` in a text is replaced by a long passage.
        quotes: whether replies may hold the markup of the protocol as text.
        together: whether it runs at the same time as the other cases that do.
    """

    name: str
    theme: str
    tools: tuple[Schema, ...]
    invocations: tuple[Invocation, ...]
    history: tuple[Message, ...] = ()
    quotes: bool = False
    together: bool = False


def tool(
    name: str, description: str, properties: Mapping[str, Any], required: Sequence[str] | None = None
) -> Schema:
    """A tool in the form of the protocol; its arguments are closed, and all required unless told."""
    return {
        "type": "function",
        "function": {
            "name": name,
            "description": description,
            "parameters": {
                "type": "object",
                "properties": dict(properties),
                "required": list(properties if required is None else required),
                "additionalProperties": False,
            },
        },
    }


def text(description: str) -> Schema:
    """Schema of a text."""
    return {"type": "string", "description": description}


def number(description: str) -> Schema:
    """Schema of a whole number."""
    return {"type": "integer", "description": description}


def choice(*values: str) -> Schema:
    """Schema of one text out of some."""
    return {"type": "string", "enum": list(values)}
