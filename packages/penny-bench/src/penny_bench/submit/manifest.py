"""The manifest of a submission: what is in it, and what its submitter says."""

from __future__ import annotations

import hashlib
import json
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

SCHEMA = "penny-bench/submission/1"
LICENSES = ("CC0-1.0", "CC-BY-4.0")
"""Licences (SPDX) under which a result may be published."""
MANIFEST, README = "manifest.json", "README.md"

Digest = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class FilePart(BaseModel):
    """A file of the archive."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    path: str = Field(pattern=r"^(README\.md|runs/[A-Za-z0-9][A-Za-z0-9._-]{0,120}\.json)$")
    bytes: int = Field(ge=0)
    sha256: Digest
    schema_: str | None = Field(alias="schema", description="of a document; null for the README")
    original_sha256: Digest | None = Field(
        description="before private parts were taken out; null if none was"
    )


class Manifest(BaseModel):
    """All that is known of a submission."""

    model_config = ConfigDict(extra="forbid", frozen=True, populate_by_name=True)

    schema_: Literal["penny-bench/submission/1"] = Field(alias="schema")
    penny_bench: str
    name: str | None = Field(max_length=100)
    hardware_note: str | None = Field(max_length=1000)
    license: Literal["CC0-1.0", "CC-BY-4.0"] | None
    files: list[FilePart] = Field(min_length=2)

    def text(self) -> str:
        """As it stands in the archive."""
        return json.dumps(self.model_dump(by_alias=True), ensure_ascii=False, indent=1) + "\n"


def digest(data: bytes) -> str:
    """SHA-256 in hexadecimal."""
    return hashlib.sha256(data).hexdigest()
