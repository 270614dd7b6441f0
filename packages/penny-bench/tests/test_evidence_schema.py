"""The published schema of a run and the model that it is made from."""

from __future__ import annotations

from typing import Any

from penny_bench.evidence import schema
from penny_bench.evidence.schema import made_schema


def test_the_shipped_schema_is_that_of_the_document() -> None:
    def names(value: Any) -> Any:
        """What a schema allows, without the words that differ between versions of pydantic."""
        if isinstance(value, dict):
            kept = ("properties", "required", "$defs", "enum", "const", "$ref", "anyOf", "items", "minimum")
            kept += ("additionalProperties", "prefixItems", "type")
            inside = set(value) - set(kept) - {"title", "description", "minItems", "maxItems", "default"}
            return {key: names(item) for key, item in value.items() if key in kept or key in inside}
        return [names(item) for item in value] if isinstance(value, list) else value

    assert names(schema()) == names(made_schema())
