"""The sentences that bad requests are answered with, without a server."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Literal

import pytest
from pydantic import BaseModel, ValidationError

from penny_server.sglang.seams.requests import field_of, plain_grammar_error, range_error, sentence_of


class Message(BaseModel):
    role: Literal["user", "system"]


class Body(BaseModel):
    messages: list[Message]
    temperature: float = 1.0


def errors_of(**body: object) -> list[dict]:
    with pytest.raises(ValidationError) as caught:
        Body(**body)  # type: ignore[arg-type]
    return [{**e, "loc": ("body", *e["loc"])} for e in caught.value.errors()]


def test_sentence_names_the_field_and_what_was_found() -> None:
    errors = errors_of(messages=[{"role": "wizard"}])
    assert sentence_of(errors) == "messages.0.role: Input should be 'user' or 'system' (found 'wizard')."


def test_more_than_three_errors_are_counted() -> None:
    errors = errors_of(messages=[{"role": str(i)} for i in range(5)])
    assert sentence_of(errors).endswith("(found '2'); and 2 more.")


def test_long_input_is_cut() -> None:
    assert len(sentence_of(errors_of(messages=[], temperature="x" * 10_000))) < 250


@pytest.mark.parametrize(
    ("location", "field"),
    [
        (("body", "messages", 0, "function-after[check(), Param]", "role"), "messages.0.role"),
        (("body", "tool_choice", "ToolChoice"), "tool_choice"),
        (("body", "stop", "str"), "stop"),
        (("body", "prompt", "list[int]", 2), "prompt.2"),
        (("body", 17), "body"),
        (("body",), "body"),
    ],
)
def test_field_of(location: tuple, field: str) -> None:
    assert field_of(location) == field


def test_text_that_is_no_json() -> None:
    error = {
        "type": "json_invalid",
        "loc": ("body", 1),
        "msg": "JSON decode error",
        "ctx": {"error": "no key"},
    }
    assert sentence_of([error]) == "body: JSON decode error (found no key at character 1)."


@pytest.mark.parametrize(
    ("request_", "start"),
    [
        ({"n": 0}, "n: must be at least 1 (found 0)"),
        ({"n": 1, "top_logprobs": -4}, "top_logprobs: must be between 0 and 20 (found -4)"),
        ({"n": 3, "seed": 1}, "n: with a seed all 3 choices would be the same one"),
        ({"max_tokens": -3}, "max_tokens: must be at least 0 (found -3)"),
        ({"logprobs": 21}, "logprobs: must be between 0 and 20 (found 21)"),
    ],
)
def test_out_of_range(request_: dict, start: str) -> None:
    assert (range_error(SimpleNamespace(**request_)) or "").startswith(start)


def test_in_range() -> None:
    assert range_error(SimpleNamespace(n=1, logprobs=True, top_logprobs=20)) is None
    assert range_error(SimpleNamespace(n=4, logprobs=0)) is None


def test_grammar_error_loses_the_source_location() -> None:
    raw = '[00:11:18] /project/cpp/json_schema_converter.cc:4175: Unsupported type "objekt"\n'
    assert plain_grammar_error(raw).endswith('cannot be used: Unsupported type "objekt"')
