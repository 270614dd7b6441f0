"""Reads the JSON object that ends a reply, and gives the points that a program can give."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime, time
from typing import Any

from penny_bench.cases.reasoning.model import POINTS, Key, Question
from penny_bench.load import Check

_FENCE = re.compile(r"```[ \t]*\w*[ \t]*\n(.*?)```", re.DOTALL)


def last_object(words: str) -> dict[str, Any] | None:
    """The last JSON object of a reply: that of the last fenced block which holds one, else the last in the text."""
    for block in reversed(_FENCE.findall(words)):
        if isinstance(found := _read(block), dict):
            return found
    decoder, last, place = json.JSONDecoder(), None, words.find("{")
    while place >= 0:
        try:
            found, end = decoder.raw_decode(words, place)
            last = found if isinstance(found, dict) else last
        except ValueError:
            end = place + 1
        place = words.find("{", end)
    return last


def rubric_checks(case: str, question: Question, words: str) -> list[Check]:
    """A check for each item of the rubric; one that a person must judge is open, if there is anything to judge."""
    found = last_object(words)
    checks = []
    for item in question.items:
        if item.guide:
            empty = "" if words.strip() else "The reply is empty."
            checks.append(Check(case, item.name, False if empty else None, empty, 0.0, POINTS))
            continue
        wrong = [key for key in item.keys if found is None or not right(key, found)]
        points = POINTS * (len(item.keys) - len(wrong)) / len(item.keys)
        detail = "; ".join(f"{key.name} is {_told(found, key)}, not {_shown(key.value)}" for key in wrong)
        if found is None:
            detail = "The reply holds no JSON object"
        checks.append(Check(case, item.name, not wrong, detail and f"{detail}.", points, POINTS))
    return checks


def right(key: Key, found: Mapping[str, Any]) -> bool:
    """Whether the object has the right value at a key."""
    if key.name not in found:
        return False
    value = found[key.name]
    match key.form:
        case "number":
            number = _number(value)
            return number is not None and abs(number - float(key.value)) <= key.tolerance + 1e-9
        case "truth":
            return value is key.value or _plain(value) == str(key.value).casefold()
        case "text":
            return _plain(value) == _plain(key.value)
        case "time":
            return _time(value) == _time(key.value) is not None
        case "moment":
            return _moment(value) == _moment(key.value) is not None
        case "groups":
            return isinstance(value, list) and [_set(part) for part in value] == [
                _set(part) for part in key.value
            ]
        case "set":
            return _set(value) == _set(key.value)
        case "list":
            return isinstance(value, list) and [_plain(v) for v in value] == [_plain(v) for v in key.value]


def _read(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _number(value: Any) -> float | None:
    if isinstance(value, bool):
        return None
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _plain(value: Any) -> str:
    return " ".join(str(value).split()).casefold()


def _set(value: Any) -> list[str] | None:
    """The members, sorted; one alone may stand without a list. Named twice is not the same as once."""
    return sorted(_plain(part) for part in (value if isinstance(value, list) else [value]))


def _time(value: Any) -> time | None:
    try:
        return time.fromisoformat(str(value).strip())
    except ValueError:
        return None


def _moment(value: Any) -> datetime | None:
    try:
        read = datetime.fromisoformat(str(value).strip())
    except ValueError:
        return None
    return (read if read.tzinfo else read.replace(tzinfo=UTC)).astimezone(UTC)


def _told(found: Mapping[str, Any] | None, key: Key) -> str:
    return "missing" if found is None or key.name not in found else _shown(found[key.name])


def _shown(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)[:120]
