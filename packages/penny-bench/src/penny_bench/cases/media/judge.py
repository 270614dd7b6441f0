"""Compares an answer about a picture with how the picture was drawn."""

from __future__ import annotations

import json
import re
from typing import Any

from penny_bench.cases.media.model import Question
from penny_bench.client import Reply
from penny_bench.load import Check


def answer_checks(case: str, question: Question, reply: Reply) -> list[Check]:
    """One check for each field of the answer, or one for the call; together they are worth a point."""
    if question.call:
        return [_call_check(case, question, reply)]
    found = read_json(reply.content)
    share = 1 / len(question.answer)
    return [
        _field(case, name, due, question.tolerance.get(name, 0.0), found, share)
        for name, due in question.answer.items()
    ]


def read_json(content: str) -> dict[str, Any] | None:
    """The last JSON object of a reply, with or without a code block; None if there is none."""
    found = None
    decoder = json.JSONDecoder()
    at = content.find("{")
    while at >= 0:
        try:
            value, end = decoder.raw_decode(content, at)
        except ValueError:
            end = at + 1
        else:
            found = value if isinstance(value, dict) else found
        at = content.find("{", end)
    return found


def _field(
    case: str, name: str, due: Any, tolerance: float, found: dict[str, Any] | None, share: float
) -> Check:
    if found is None:
        return Check(case, name, False, "The reply holds no JSON object.", 0.0, share)
    if name not in found:
        return Check(case, name, False, f"The answer has no {name!r}.", 0.0, share)
    if _same(found[name], due, tolerance):
        return Check(case, name, True, "", share, share)
    return Check(case, name, False, f"Found {str(found[name])[:120]!r}; expected {due!r}.", 0.0, share)


def _call_check(case: str, question: Question, reply: Reply) -> Check:
    call = question.call
    assert call is not None
    name = f"calls {call.name}"
    made = [(one.name, read_json(one.arguments)) for one in reply.tool_calls]
    if [one for one, _ in made] != [call.name]:
        said = ", ".join(one for one, _ in made) or "no call"
        return Check(case, name, False, f"Found {said}; expected one call of {call.name}.", 0.0, 1.0)
    arguments = made[0][1] or {}
    if arguments.keys() == call.arguments.keys() and all(
        _same(arguments[key], due, 0.0) for key, due in call.arguments.items()
    ):
        return Check(case, name, True, "", 1.0, 1.0)
    return Check(
        case, name, False, f"Found {str(arguments)[:160]}; expected {dict(call.arguments)}.", 0.0, 1.0
    )


def _same(found: Any, due: Any, tolerance: float) -> bool:
    """Whether they are equal; texts without regard to case and blanks at the ends, numbers also in words of digits."""
    if isinstance(due, list):
        return (
            isinstance(found, list)
            and len(found) == len(due)
            and all(_same(one, other, tolerance) for one, other in zip(found, due, strict=True))
        )
    if isinstance(due, int | float):
        number = _number(found)
        return number is not None and abs(number - due) <= tolerance + 1e-9
    return isinstance(found, str) and _plain(found) == _plain(due)


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, str) and re.fullmatch(r"-?\d{1,9}(\.\d{1,9})?", value.strip()):
        return float(value)
    return None


def _plain(text: str) -> str:
    return " ".join(text.casefold().split())
