"""Packs results into one file that may be published."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from penny_bench.errors import BenchError
from penny_bench.report import Document, markdown, parse_document, reports_of
from penny_bench.report.document import json_text
from penny_bench.report.markdown import escaped
from penny_bench.report.read import DECODE, RUN
from penny_bench.submit.form import check_form
from penny_bench.submit.manifest import MANIFEST, README, SCHEMA, FilePart, Manifest, digest
from penny_bench.submit.private import cleaned, findings, hosts_of

DATE = (1980, 1, 1, 0, 0, 0)
"""Of every file of the archive: the same results give the same bytes."""


@dataclass(frozen=True)
class About:
    """What a submitter says.

    Attributes:
        name: who submits; None for nobody.
        hardware_note: what no document tells, such as the power limit or the cooling.
        license: SPDX name of the licence under which all may be published; None for no leave.
    """

    name: str | None = None
    hardware_note: str | None = None
    license: str | None = None


def pack(paths: Sequence[Path], about: About, penny_bench: str, redact: bool = False) -> bytes:
    """The bytes of the archive.

    Args:
        paths: results of run or decode.
        about: what the submitter says.
        penny_bench: version of this package.
        redact: take private parts out instead of refusing them.

    Raises:
        BenchError: a file is no such result, is not whole, holds something private, or came twice.
    """
    runs: dict[str, tuple[bytes, Document, str | None]] = {}
    for path in paths:
        data = _read(path)
        document, original = parse_document(path.name, data, (RUN, DECODE)), None
        check_form(document)
        hosts = hosts_of(document.value)
        if found := list(islice(findings(document.value, hosts=hosts), 4)):
            if not redact:
                told = "; ".join(f"{each.what} in {each.where}" for each in found[:3])
                more = "; and more" if len(found) > 3 else ""
                raise BenchError(
                    f"{path.name} holds something private: {told}{more}. Pass --redact to take it out of the copy."
                )
            original = digest(data)
            value = cleaned(document.value, hosts)
            data = json_text(value, indent=None).encode("utf-8")
            document = parse_document(path.name, data, (RUN, DECODE))
        if any(digest(data) == digest(other) for other, _, _ in runs.values()):
            raise BenchError(f"{path.name} is the same result as one before it; give each once.")
        runs[_name(path.name, runs)] = (data, document, original)
    ordered = sorted(runs.items())
    readme = _readme([document for _, (_, document, _) in ordered], about).encode("utf-8")
    files = [
        FilePart(path=README, bytes=len(readme), sha256=digest(readme), schema=None, original_sha256=None)
    ]
    files += [
        FilePart(
            path=name, bytes=len(data), sha256=digest(data), schema=document.schema, original_sha256=original
        )
        for name, (data, document, original) in ordered
    ]
    manifest = Manifest.model_validate(
        {
            "schema": SCHEMA,
            "penny_bench": penny_bench,
            "name": about.name,
            "hardware_note": about.hardware_note,
            "license": about.license,
            "files": files,
        }
    )
    parts = [(MANIFEST, manifest.text().encode("utf-8")), (README, readme)]
    return _archive([*parts, *((name, data) for name, (data, _, _) in ordered)])


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise BenchError(f"Could not read {path}: {error.strerror}.") from error


def _name(name: str, taken: dict[str, Any]) -> str:
    """A plain name in the archive that no other file has."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", name.removesuffix(".json")).strip(".-_") or "run"
    names = (f"runs/{stem[:100]}{suffix}.json" for suffix in ("", *(f"-{i}" for i in range(2, 10_000))))
    return next(each for each in names if each not in taken)


def _readme(documents: Sequence[Document], about: About) -> str:
    reports = reports_of(documents)
    lines = [
        f"Submitted by {escaped(about.name)}." if about.name else "The submitter gave no name.",
        f"Hardware: {escaped(about.hardware_note)}" if about.hardware_note else "",
        f"The submitter publishes all of it under {about.license}."
        if about.license
        else "No licence was given, so this may not be published.",
        "`penny-bench submit --check FILE` verifies it.",
    ]
    title = reports[0].title if len(reports) == 1 else f"{len(documents)} results"
    head, rest = markdown(title, reports).split("\n", 1)
    return "\n\n".join([head, *filter(None, lines)]) + "\n" + rest


def _archive(parts: Sequence[tuple[str, bytes]]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        for name, data in parts:
            entry = zipfile.ZipInfo(name, DATE)
            entry.compress_type = zipfile.ZIP_DEFLATED
            entry.create_system = 3  # Unix, on every system
            entry.external_attr = 0o644 << 16
            archive.writestr(entry, data, compresslevel=9)
    return out.getvalue()
