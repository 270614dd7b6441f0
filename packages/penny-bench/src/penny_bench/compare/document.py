"""What one result file says."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple

from penny_bench.compare.decode_document import read_decode
from penny_bench.compare.run_document import read_run
from penny_bench.compare.value import Value
from penny_bench.errors import BenchError
from penny_bench.evidence.schema import SCHEMA as RUN
from penny_bench.report.document import SCHEMA as DECODE

READERS: dict[str, Callable[[Any], dict[str, Any]]] = {DECODE: read_decode, RUN: read_run}


class Finding(NamedTuple):
    """A sentence about one phase of a document, or about all of it."""

    phase: str | None
    sentence: str


@dataclass(frozen=True, kw_only=True)
class Document:
    """A result file of `penny-bench decode` or `penny-bench run`.

    Attributes:
        name: path of the file, as it was given.
        digest: SHA-256 of the file.
        started: when it was measured.
        model: model name.
        workload: name of the workload; `decode` and `run` stand for those without a workload file.
        alike: what every document of a workload must share, in words.
        told: what is told where it differs, in words.
        values: by phase and key of the metric.
        prompts: median or mean length of the prompts by phase, tokens.
        faults: with which a comparison would mislead.
        notes: what a reader should know.
    """

    name: str
    digest: str
    started: datetime
    model: str
    workload: str
    alike: Mapping[str, str]
    told: Mapping[str, str]
    values: Mapping[tuple[str, str], Value]
    prompts: Mapping[str, float]
    faults: tuple[Finding, ...] = ()
    notes: tuple[Finding, ...] = ()


def read_document(path: Path) -> Document:
    """Read a result file.

    Raises:
        BenchError: the file cannot be read, or is no result of `penny-bench decode` or `penny-bench run`.
    """
    try:
        data = path.read_bytes()
        read = json.loads(data)
    except OSError as error:
        raise BenchError(f"Could not read {path}: {error.strerror}.") from error
    except ValueError as error:
        raise BenchError(
            f"{path} is not JSON; give a file that penny-bench decode or run wrote with --json."
        ) from error
    found = read.get("schema") if isinstance(read, dict) else None
    reader = READERS.get(found) if isinstance(found, str) else None
    if reader is None:
        raise BenchError(
            f"{path} has the schema {found!r}; give a file of {' or '.join(READERS)}, from penny-bench decode or run."
        )
    try:
        fields = reader(read)
        return Document(
            name=str(path),
            digest=hashlib.sha256(data).hexdigest(),
            started=datetime.fromisoformat(read["started"]).astimezone(UTC),
            model=str(read["server"]["model"]),
            faults=tuple(Finding(*found) for found in fields.pop("faults")),
            notes=tuple(Finding(*found) for found in fields.pop("notes")),
            **fields,
        )
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise BenchError(
            f"{path} lacks or garbles a part of {found} ({type(error).__name__}: {error}); measure again."
        ) from error
