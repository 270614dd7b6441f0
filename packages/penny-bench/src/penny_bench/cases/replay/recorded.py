"""Recorded conversations: JSON lines of messages in the form of the protocol."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from penny_bench.cases.replay.session import Message, Session, Turn
from penny_bench.errors import BenchError

ROLES = ("system", "developer", "user", "assistant", "tool", "function")


def read_sessions(path: Path) -> list[Session]:
    """The sessions of a file.

    Either each line is a message, and all are one session; or each line is a session, an object with `messages` and
    perhaps `tools`. A request is made before each answer of the assistant, and behind the last message if that is none.

    Raises:
        BenchError: the file cannot be read, or a line is not of that form; the message names the line.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BenchError(f"The recording {path} cannot be read ({error}); correct the path.") from error
    lines = [
        (number, _object(path, number, line))
        for number, line in enumerate(text.split("\n"), 1)
        if line.strip()
    ]
    if not lines:
        raise BenchError(f"The recording {path} is empty; give a file with a message in each line.")
    if "messages" in lines[0][1]:
        return [
            _session(path, number, f"session {count}", line) for count, (number, line) in enumerate(lines, 1)
        ]
    messages = [_message(path, number, line) for number, line in lines]
    return [Session("session 1", _turns(path, messages))]


def _session(path: Path, number: int, name: str, line: dict[str, Any]) -> Session:
    messages, tools = line.get("messages"), line.get("tools") or []
    if not isinstance(messages, list) or not isinstance(tools, list):
        raise BenchError(f"Line {number} of {path} has messages or tools that are no list.")
    return Session(name, _turns(path, [_message(path, number, one) for one in messages]), tuple(tools))


def _object(path: Path, number: int, line: str) -> dict[str, Any]:
    try:
        value = json.loads(line)
    except ValueError as error:
        raise BenchError(f"Line {number} of {path} is not JSON ({error}).") from error
    if not isinstance(value, dict):
        raise BenchError(f"Line {number} of {path} is {type(value).__name__}, not an object.")
    return value


def _message(path: Path, number: int, value: Any) -> Message:
    role = value.get("role") if isinstance(value, dict) else None
    if role not in ROLES:
        raise BenchError(
            f"Line {number} of {path} has a message with the role {role!r}; expected one of {', '.join(ROLES)}."
        )
    return dict(value)


def _turns(path: Path, messages: Sequence[Message]) -> tuple[Turn, ...]:
    turns: list[Turn] = []
    added: list[Message] = []
    for message in messages:
        if message["role"] == "assistant" and added:
            turns.append(Turn(tuple(added), message))
            added = []
        elif message["role"] == "assistant" and turns:  # two answers in a row: no request came between them
            added.append(message)
        elif message["role"] == "assistant":
            raise BenchError(
                f"A session of {path} begins with an answer of the assistant; begin with a question."
            )
        else:
            added.append(message)
    if any(message["role"] != "assistant" for message in added):
        turns.append(Turn(tuple(added), None))
    if not turns:
        raise BenchError(f"A session of {path} has no message that could be answered.")
    return tuple(turns)
