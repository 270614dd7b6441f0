"""Random JSON schemas with bounded answers: a small model at a high temperature must always be able to finish."""

from __future__ import annotations

import random
from typing import Any

WORDS = ["name", "age", "colour", "size", "tags", "active", "price", "kind", "count", "note", "état", "x-y"]


def _value(rng: random.Random, depth: int) -> dict[str, Any]:
    kind = rng.choice(["enum", "boolean", "integer", "const", "string", "null", "array", "object"])
    if kind in ("array", "object") and depth >= 2:
        kind = "enum"
    match kind:
        case "enum":
            return {
                "enum": rng.sample(["red", "green", 3, 4.5, True, None, "a b", 'quote"d'], rng.randint(1, 4))
            }
        case "const":
            return {"const": rng.choice(["fixed", 7, False])}
        case "integer":
            low = rng.randint(-50, 50)
            return {"type": "integer", "minimum": low, "maximum": low + rng.randint(0, 100)}
        case "string":
            return {"type": "string", "maxLength": rng.randint(1, 12)}
        case "array":
            low = rng.randint(0, 2)
            items = _value(rng, depth + 1)
            return {"type": "array", "items": items, "minItems": low, "maxItems": low + rng.randint(0, 2)}
        case "object":
            return _object(rng, depth + 1)
        case _:
            return {"type": kind}


def _object(rng: random.Random, depth: int) -> dict[str, Any]:
    names = rng.sample(WORDS, rng.randint(1, 4))
    return {
        "type": "object",
        "properties": {name: _value(rng, depth) for name in names},
        "required": names,
        "additionalProperties": False,
    }


def random_schemas(count: int = 20, seed: int = 27) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    return [_object(rng, 0) for _ in range(count)]
