"""Schemas and prompts of structured output, one file a case, and how a reply is judged."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any

from jsonschema import Draft202012Validator

from penny_bench.client import StreamRecord
from penny_bench.load import Check

VALID, SYNTAX = "the reply fits the schema", "the reply is a JSON object"
"""Names of the checks."""


@dataclass(frozen=True)
class SchemaCase:
    """What is asked for.

    Attributes:
        name: of its file.
        theme: what it tries, in a sentence.
        prompt: in words; the schema is not in it.
        schema: JSON Schema of the reply; closed, not recursive, and of bounded length.
    """

    name: str
    theme: str
    prompt: str
    schema: Mapping[str, Any]


@cache
def schema_cases() -> tuple[SchemaCase, ...]:
    """The cases, sorted by name."""
    folder = files(__name__)
    names = sorted(e.name for e in folder.iterdir() if e.name.endswith(".json"))
    read = [(name, json.loads(folder.joinpath(name).read_text(encoding="utf-8"))) for name in names]
    return tuple(
        SchemaCase(name.removesuffix(".json"), data["theme"], data["prompt"], data["schema"])
        for name, data in read
    )


def structure_checks(case: SchemaCase, record: StreamRecord, strict: bool) -> list[Check]:
    """Judge a reply: whether all of it is one JSON object, and whether that fits the schema.

    Args:
        case: that was asked.
        record: with its reply.
        strict: whether the server had the schema. Where it had not, fitting it is the model's merit: told, but
            without points.
    """
    words = record.reply.content if record.reply else ""
    cut = f" It was cut off after {record.output_tokens} tokens." if record.finish_reason == "length" else ""
    try:
        value = json.loads(words, parse_constant=_no_constant)
        wrong = "" if isinstance(value, dict) else f"It is no object: {words[:80]!r}.{cut}"
    except ValueError as error:
        wrong = f"It is no JSON ({error}): {words[:80]!r}.{cut}"
    unfit = wrong
    if not wrong:
        found = next(Draft202012Validator(case.schema).iter_errors(value), None)
        unfit = f"{found.message[:160]} at {found.json_path}." if found else ""
    syntax = Check(
        case.name, SYNTAX, not wrong, wrong, 0.0 if strict else float(not wrong), float(not strict)
    )
    fits = Check(case.name, VALID, not unfit, unfit, float(not unfit) if strict else 0.0, float(strict))
    return [syntax, fits]


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")
