"""Verifies a submission."""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

from pydantic import ValidationError

from penny_bench.errors import BenchError
from penny_bench.report import parse_document
from penny_bench.report.read import DECODE, RUN
from penny_bench.submit.form import check_form
from penny_bench.submit.manifest import MANIFEST, README, FilePart, Manifest, digest
from penny_bench.submit.private import findings

LARGEST = 1 << 30
"""Bytes of all files of a submission, unpacked."""


@dataclass(frozen=True)
class Checked:
    """What a check found.

    Attributes:
        manifest: of the submission; None if it cannot be read.
        faults: sentences; none if all is well.
    """

    manifest: Manifest | None
    faults: tuple[str, ...]


def check(data: bytes) -> Checked:
    """Verify the bytes of a submission. Nothing is unpacked to the disk."""
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            return _check(archive)
    except (zipfile.BadZipFile, EOFError, NotImplementedError, RuntimeError, OSError, zlib.error) as error:
        return Checked(
            None, (f"It is no archive that can be read ({error}); expected a file of submit --out.",)
        )


def _check(archive: zipfile.ZipFile) -> Checked:
    entries = archive.infolist()
    names = [entry.filename for entry in entries]
    if sum(entry.file_size for entry in entries) > LARGEST:
        return Checked(None, (f"It unpacks to more than {LARGEST:,} bytes, which no submission needs.",))
    if len(set(names)) != len(names):
        return Checked(None, ("A file name comes twice in it; expected each once.",))
    if MANIFEST not in names:
        return Checked(None, (f"It has no {MANIFEST}; expected a file of submit --out.",))
    try:
        manifest = Manifest.model_validate_json(_read(archive, MANIFEST))
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the whole"
        return Checked(None, (f"Its {MANIFEST} is not of this form: {place}: {first['msg']}.",))
    return Checked(manifest, tuple(_faults(archive, manifest, names)))


def _faults(archive: zipfile.ZipFile, manifest: Manifest, names: list[str]) -> Iterator[str]:
    listed = [part.path for part in manifest.files]
    for name in sorted(set(names) - {*listed, MANIFEST}):
        yield f"{name} is in the archive but not in its manifest."
    if len(set(listed)) != len(listed):
        yield "The manifest lists a file twice."
    if README not in listed:
        yield f"The manifest does not list {README}."
    for part in manifest.files:
        if part.path not in names:
            yield f"{part.path} is in the manifest but not in the archive."
        else:
            yield from _file_faults(part, _read(archive, part.path))
    for field in ("name", "hardware_note"):
        for found in findings(getattr(manifest, field), field):
            yield f"{MANIFEST} holds {found.what} in {found.where}."


def _file_faults(part: FilePart, data: bytes) -> Iterator[str]:
    if digest(data) != part.sha256 or len(data) != part.bytes:
        yield (
            f"{part.path} was changed: its SHA-256 is {digest(data)[:16]}..., expected {part.sha256[:16]}... of the "
            f"manifest."
        )
        return
    if part.path == README:
        return
    try:
        document = parse_document(part.path, data, (RUN, DECODE))
        check_form(document)
    except BenchError as error:
        yield str(error)
        return
    if document.schema != part.schema_:
        yield f"{part.path} has the schema {document.schema}, and its manifest says {part.schema_}."
    for found in islice(findings(document.value), 3):
        yield f"{part.path} holds {found.what} in {found.where}."


def _read(archive: zipfile.ZipFile, name: str) -> bytes:
    """A file, and not more of it than its entry says."""
    with archive.open(name) as stream:
        return stream.read(LARGEST + 1)
