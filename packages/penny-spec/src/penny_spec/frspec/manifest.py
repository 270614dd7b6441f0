"""The manifest that lies beside a map: what it was made of, for whom, and what it covers."""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penny_spec.frspec.errors import InputError, MapError


@dataclass(frozen=True)
class CorpusRow:
    """One input file.

    Attributes:
        path: as the user named it; a member of a folder from the folder's name on.
        source: `corpus` or `choices`.
        documents: documents that were counted for the selection.
        bytes_used: their bytes: UTF-8 of a text, 8 for a recorded token.
        sha256_used: SHA-256 of these bytes, one document after the other.
        held_out_documents: documents kept back to measure coverage.
        held_out_bytes: their bytes.
    """

    path: str
    source: str
    documents: int
    bytes_used: int
    sha256_used: str
    held_out_documents: int
    held_out_bytes: int


@dataclass(frozen=True)
class CoverageRow:
    """Held-out coverage of one group; `share` is None when it has no held-out tokens."""

    source: str
    kind: str
    name: str
    tokens: int
    covered: int
    share: float | None


@dataclass(frozen=True)
class Manifest:
    """Fields of the manifest; those up to `corpus_source_revision` are the reference's.

    Digests are SHA-256 in hex: of the ids as little-endian int64, of the map file, of `tokenizer.json`.
    `corpus_tokens` and `corpus_coverage` are of the counted part of the corpus, `held_out` of the rest.
    `acceptance` comes from answers of a server, after the build (`calibrate`): by group `accepted_by_slot`, as
    `penny_spec.guard.Expectation` reads it, and the number of `verifies`. None is not written.
    """

    model: str
    model_vocab_size: int
    tokenizer_vocab_size: int
    tokenizer_sha256: str
    size: int
    base_count: int
    special_ids: tuple[int, ...]
    all_special_ids_included: bool
    ids_sha256: str
    map_sha256: str
    corpus_bytes: int
    corpus_tokens: int
    corpus_coverage: float
    corpus: tuple[CorpusRow, ...]
    evaluation_cases_used: bool | None
    corpus_source_revision: str | None
    choices_tokens: int
    choices_weight: float
    hold_out: float
    floor: float
    held_out: tuple[CoverageRow, ...]
    builder: str
    acceptance: Mapping[str, Mapping[str, Any]] | None = None

    def to_json(self) -> str:
        """The manifest as JSON text."""
        fields = dataclasses.asdict(self)
        if self.acceptance is None:
            del fields["acceptance"]
        return json.dumps(fields, indent=2, ensure_ascii=False) + "\n"


def manifest_path(map_path: Path) -> Path:
    """Where the manifest of a map lies: `flash-64k.pt` has `flash-64k.manifest.json` beside it."""
    return map_path.with_name(f"{map_path.stem}.manifest.json")


def read_manifest(path: Path) -> dict[str, Any]:
    """A manifest as it lies on disk, ours or another builder's.

    Raises:
        InputError: there is no such file.
        MapError: it is no JSON object.
    """
    if not path.is_file():
        raise InputError(f"There is no manifest {path}; check the path.")
    try:
        found = json.loads(path.read_bytes())
    except ValueError as error:
        raise MapError(f"The manifest {path} is no JSON ({error}); rebuild the map.") from error
    if not isinstance(found, dict):
        raise MapError(
            f"The manifest {path} is a JSON {type(found).__name__}, not an object; rebuild the map."
        )
    return found
