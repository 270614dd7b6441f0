"""Documents as they are read back from files."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penny_bench.errors import BenchError

RUN = "penny-bench/run/1"
DECODE = "penny-bench/decode/1"
COMPARE = "penny-bench/compare/1"


@dataclass(frozen=True)
class Document:
    """A document of penny-bench.

    Attributes:
        name: name of its file, without folders.
        sha256: of the bytes of the file.
        value: the decoded JSON object.
    """

    name: str
    sha256: str
    value: dict[str, Any]

    @property
    def schema(self) -> str:
        """Name and version of its form, such as `penny-bench/run/1`."""
        return str(self.value["schema"])


def read_document(path: Path, schemas: Collection[str] = (RUN, DECODE, COMPARE)) -> Document:
    """Read one document.

    Raises:
        BenchError: the file cannot be read, is no JSON object, or has none of these schemas.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise BenchError(f"Could not read {path}: {error.strerror}.") from error
    return parse_document(path.name, data, schemas)


def parse_document(name: str, data: bytes, schemas: Collection[str] = (RUN, DECODE, COMPARE)) -> Document:
    """The document in the bytes of a file called `name`.

    Raises:
        BenchError: it is no JSON object, or has none of these schemas.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise BenchError(
            f"{name} is no JSON document ({error}); give a file that penny-bench wrote with --json."
        ) from error
    found = value.get("schema") if isinstance(value, dict) else None
    if found not in schemas:
        raise BenchError(
            f"{name} has the schema {found!r}; expected {' or '.join(sorted(schemas))}. Give a file that "
            f"penny-bench wrote with --json."
        )
    return Document(name, hashlib.sha256(data).hexdigest(), value)
