"""When two JSON values are the same: to the byte, by the types of a schema, or in meaning."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from penny_bench.cases.tools.model import Expect, Schema

_PYTHON: dict[str, tuple[type, ...]] = {
    "integer": (int, float),
    "number": (int, float),
    "boolean": (bool,),
    "array": (list,),
    "object": (dict,),
    "null": (type(None),),
}


def literally(a: Any, b: Any) -> bool:
    """Whether two values are the same to the byte, the order of keys and blanks of the JSON text aside."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def same(a: Any, b: Any) -> bool:
    """Whether two values are equal as JSON: 5 is 5.0, but 1 is not true."""
    if isinstance(a, bool) or isinstance(b, bool):
        return a is b
    if isinstance(a, Mapping) and isinstance(b, Mapping):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return bool(a == b)


def typed(value: Any, schema: Any) -> Any:
    """The value as its schema means it: text that holds a number, boolean, null, list or object becomes that.

    A value that its type cannot be made of stays as it is.
    """
    told = schema.get("type", ()) if isinstance(schema, Mapping) else ()
    kinds = (told,) if isinstance(told, str) else tuple(told)
    if isinstance(value, str) and kinds and "string" not in kinds:
        value = _read(value, kinds)
    if isinstance(value, Mapping) and "object" in kinds:
        fields = schema.get("properties", {})
        return {key: typed(part, fields.get(key, {})) for key, part in value.items()}
    if isinstance(value, list) and "array" in kinds:
        return [typed(part, schema.get("items", {})) for part in value]
    return value


def means(expected: Expect, arguments: Mapping[str, Any]) -> bool:
    """Whether arguments, already typed, mean what was expected."""
    return any(_means(expected, wanted, arguments) for wanted in (expected.arguments, *expected.variants))


def parameters(tools: tuple[Schema, ...], name: str) -> Schema | None:
    """Schema of the arguments of a tool; None if it was not offered."""
    for entry in tools:
        if entry["function"]["name"] == name:
            found: Schema = entry["function"]["parameters"]
            return found
    return None


def _read(value: str, kinds: tuple[str, ...]) -> Any:
    """What the text holds as JSON, if that is of one of the types; else the text."""
    try:
        found = json.loads(value)
    except ValueError:
        return value
    fits = any(isinstance(found, _PYTHON[kind]) for kind in kinds if kind in _PYTHON)
    return found if fits and ("boolean" in kinds or not isinstance(found, bool)) else value


def _means(expected: Expect, wanted: Mapping[str, Any], arguments: Mapping[str, Any]) -> bool:
    allowed = {**expected.defaults, **wanted}
    if not arguments.keys() <= allowed.keys():
        return False
    for key, value in allowed.items():
        if key not in arguments:
            if key not in expected.defaults:
                return False
        elif key in expected.patterns:
            if not re.fullmatch(expected.patterns[key], str(arguments[key]), re.IGNORECASE):
                return False
        elif not same(_plain(arguments[key]), _plain(value)):
            return False
    return True


def _plain(value: Any) -> Any:
    """Text without regard to case and blanks, also deep inside."""
    if isinstance(value, str):
        return " ".join(value.split()).casefold()
    if isinstance(value, Mapping):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(part) for part in value]
    return value
