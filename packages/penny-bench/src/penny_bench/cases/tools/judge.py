"""The three outcomes of a reply in a tool case, recorded apart."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any

from penny_bench.cases.tools.compare import literally, means, parameters, same, typed
from penny_bench.cases.tools.model import Expect, Invocation, Schema
from penny_bench.client import Reply
from penny_bench.load import Check

LITERAL, EXACT, SEMANTIC = "literal outcome", "exact calls", "semantic outcome"
OUTCOMES = (LITERAL, EXACT, SEMANTIC)
"""Names of the checks."""


@dataclass(frozen=True)
class Call:
    """A call as its text was read.

    Attributes:
        name: of the tool.
        raw: its arguments as the JSON text has them; None if that is no JSON object.
        typed: the same after the types of the tool's schema.
    """

    name: str
    raw: dict[str, Any] | None
    typed: dict[str, Any] | None


def read_calls(reply: Reply, tools: tuple[Schema, ...]) -> list[Call]:
    """The calls of a reply, in order."""
    calls = []
    for call in reply.tool_calls:
        raw = arguments_of(call.arguments)
        schema = parameters(tools, call.name)
        calls.append(Call(call.name, raw, raw if raw is None else typed(raw, schema or {})))
    return calls


def arguments_of(text: str) -> dict[str, Any] | None:
    """Arguments from their text; no text at all is none of them; None if it is no object in strict JSON."""
    try:
        value = json.loads(text or "{}", parse_constant=_no_constant)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def outcomes(case: str, wanted: Invocation, reply: Reply, tools: tuple[Schema, ...]) -> list[Check]:
    """Judge a reply.

    Returns:
        Three checks. *Literal*: the calls in order with arguments to the byte and no word beside them, or the
        reply in words to the byte. *Exact*: the right tools with arguments equal as JSON after the types of
        the schema, whatever is said beside; no call where there should be none. *Semantic*: any right way to
        call or to say it, as the case describes it.
    """
    calls = read_calls(reply, tools)
    words = reply.content.strip()
    order = wanted.ordered
    literal = words == ("" if wanted.calls else wanted.literal) and _match(
        calls, wanted.calls, _literal, True
    )
    exact = _match(calls, wanted.calls, _exact, order)
    semantic = _match(calls, wanted.calls, _semantic, order) and not _wrong_words(wanted, words)
    found = _found(calls, words)
    return [
        Check(case, LITERAL, literal, "" if literal else found),
        Check(case, EXACT, exact, "" if exact else found),
        Check(
            case,
            SEMANTIC,
            semantic,
            "" if semantic else _wrong_words(wanted, words) or found,
            float(semantic),
            1.0,
        ),
    ]


def matched(wanted: Sequence[Expect], calls: Sequence[Call]) -> list[Expect] | None:
    """The expected call behind each call, if all mean what was expected; else None."""
    if len(calls) == len(wanted):
        for order in permutations(wanted):
            if all(_semantic(expected, call) for expected, call in zip(order, calls, strict=True)):
                return list(order)
    return None


def _match(
    calls: Sequence[Call], wanted: Sequence[Expect], fits: Callable[[Expect, Call], bool], ordered: bool
) -> bool:
    orders = [tuple(wanted)] if ordered else permutations(wanted)
    return len(calls) == len(wanted) and any(
        all(fits(expected, call) for expected, call in zip(order, calls, strict=True)) for order in orders
    )


def _literal(expected: Expect, call: Call) -> bool:
    return call.name == expected.name and literally(call.raw, expected.arguments)


def _exact(expected: Expect, call: Call) -> bool:
    return call.name == expected.name and same(call.typed, expected.arguments)


def _semantic(expected: Expect, call: Call) -> bool:
    return call.name == expected.name and call.typed is not None and means(expected, call.typed)


def _wrong_words(wanted: Invocation, words: str) -> str:
    """What is wrong with the words of a reply, as a sentence; "" if nothing is."""
    missing = [pattern for pattern in wanted.says if not re.search(pattern, words, re.IGNORECASE)]
    if missing:
        return f"Nothing in {short(words)!r} matches {missing[0]!r}."
    wrong = [pattern for pattern in wanted.never if re.search(pattern, words, re.IGNORECASE)]
    return f"{short(words)!r} holds what it must not: {wrong[0]!r}." if wrong else ""


def _found(calls: Sequence[Call], words: str) -> str:
    made = ", ".join(
        f"{call.name}({short(json.dumps(call.raw, ensure_ascii=False)) if call.raw is not None else 'no JSON object'})"
        for call in calls
    )
    return f"Found {f'the calls {made}' if made else 'no call'} and the words {short(words)!r}."


def short(text: str, most: int = 160) -> str:
    """The text, or its beginning and end."""
    return text if len(text) <= most else f"{text[: most - 40]} ... {text[-35:]}"


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
