"""The published form of the evidence of a run."""

import json
from importlib.resources import files
from typing import Any

from penny_bench.evidence.document import Document

SCHEMA = "penny-bench/run/1"
"""Name and version of the form. The number grows when a reader of the old one would misread the new one."""


def schema_text() -> str:
    """The JSON Schema (draft 2020-12) as it is shipped."""
    return files("penny_bench.evidence").joinpath("schema.json").read_text(encoding="utf-8")


def schema() -> dict[str, Any]:
    """The JSON Schema, decoded."""
    value: dict[str, Any] = json.loads(schema_text())
    return value


def made_schema() -> dict[str, Any]:
    """The JSON Schema as the installed pydantic makes it from `Document`; `schema.json` is one such."""
    made = Document.model_json_schema(by_alias=True)
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "urn:penny-bench:run:1",
        **made,
    }
