"""Text found on any machine with Python: the standard library and permissively licensed packages."""

import hashlib
import importlib.metadata
import pydoc_data.topics
import sysconfig
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from penny_models.training.licences import permissive_licence

Kind = Literal["code", "prose", "chat"]

MAX_FILE_BYTES = 200_000
_VENDORED = {
    "_vendor",
    "vendor",
    "vendored",
    "_vendored",
    "third_party",
    "thirdparty",
    "3rdparty",
    "externals",
}
_SKIPPED_STDLIB = {"test", "tests", "idle_test", "site-packages", "dist-packages", "lib2to3", "pydoc_data"}
_OWN = "penny-"


@dataclass(frozen=True)
class Document:
    """One file of text: where it came from, its kind and its SHA-256 (hex) over the UTF-8 bytes."""

    source: str
    version: str
    licence: str
    path: str
    kind: Kind
    text: str
    sha256: str


def document(source: str, version: str, licence: str, path: str, kind: Kind, text: str) -> Document:
    """Make a document and hash its text."""
    digest = hashlib.sha256(text.encode()).hexdigest()
    return Document(source, version, licence, path, kind, text, digest)


def _read(path: Path) -> str | None:
    """Return the text of a file, or None when it is empty, too large, machine-made or not UTF-8."""
    if not 64 <= path.stat().st_size <= MAX_FILE_BYTES:
        return None
    try:
        text = path.read_bytes().decode("utf-8")
    except UnicodeDecodeError:
        return None
    lines = text.splitlines()
    if "\x00" in text or len(text) > 150 * len(lines) or max(map(len, lines)) > 2000:
        return None
    return text.replace("\r\n", "\n")


def stdlib_documents() -> Iterator[Document]:
    """Yield the modules of the running Python's standard library and its reference topics."""
    version = sysconfig.get_python_version()
    root = Path(sysconfig.get_paths()["stdlib"])
    for path in sorted(root.rglob("*.py")):
        inside = path.relative_to(root)
        if _SKIPPED_STDLIB.isdisjoint(inside.parts) and (text := _read(path)) is not None:
            yield document("python", version, "PSF-2.0", inside.as_posix(), "code", text)
    for name, text in sorted(pydoc_data.topics.topics.items()):
        yield document("python", version, "PSF-2.0", f"topics/{name}", "prose", text)


def package_documents() -> Iterator[Document]:
    """Yield sources, READMEs and descriptions of the permissively licensed installed distributions."""
    distributions = {str(d.metadata["Name"]).lower(): d for d in importlib.metadata.distributions()}
    for name in sorted(distributions):
        distribution = distributions[name]
        licence = permissive_licence(distribution.metadata)  # type: ignore[arg-type]
        if licence is None or name.startswith(_OWN) or name == "pennyroyal":
            continue
        version = distribution.version
        description = distribution.metadata.get_payload()  # type: ignore[attr-defined]
        if isinstance(description, str) and len(description) > 200:
            yield document(name, version, licence, "METADATA", "prose", description)
        for file in sorted(distribution.files or [], key=str):
            kind: Kind = "code" if file.suffix == ".py" else "prose"
            if file.suffix not in (".py", ".md", ".rst") or not _VENDORED.isdisjoint(file.parts):
                continue
            path = Path(str(file.locate()))
            if path.is_file() and (text := _read(path)) is not None:
                yield document(name, version, licence, file.as_posix(), kind, text)
