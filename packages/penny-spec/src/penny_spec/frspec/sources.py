"""Inputs as the user names them, and the files behind them."""

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from penny_spec.frspec.errors import InputError

_TAIL = re.compile(r":((?:[a-z]+=[^,:=/]+)(?:,[a-z]+=[^,:=/]+)*)$")
_KEYS = {"lang": "language", "language": "language", "domain": "domain"}
_COMPRESSED = (".gz", ".zst")


@dataclass(frozen=True)
class Source:
    """A file or folder, with the language and domain of all its documents; None where each document tells."""

    path: Path
    language: str | None = None
    domain: str | None = None


@dataclass(frozen=True)
class CorpusFile:
    """One file of a source.

    Attributes:
        path: where it is.
        name: how a manifest names it: as given, for a member of a folder the folder's name and the path below it.
        source: the source that it belongs to.
        listed: True when the user named the file itself, False when a folder held it.
    """

    path: Path
    name: str
    source: Source
    listed: bool

    @property
    def form(self) -> str:
        """The file name's suffix without that of the compression, in lower case: `.jsonl`, `.txt`, ..."""
        plain = Path(self.path.name.lower())
        return (plain.with_suffix("") if plain.suffix in _COMPRESSED else plain).suffix


def parse_source(text: str) -> Source:
    """`PATH` or `PATH:lang=zh,domain=prose` as a `Source`.

    Raises:
        InputError: a key other than `lang` and `domain`, or one given twice.
    """
    if Path(text).exists() or not (tail := _TAIL.search(text)):
        return Source(Path(text))
    labels: dict[str, str] = {}
    for part in tail[1].split(","):
        key, value = part.split("=")
        if key not in _KEYS or _KEYS[key] in labels:
            raise InputError(
                f"{text!r} has {part!r}; write PATH:lang=zh,domain=prose, each of the two keys once."
            )
        labels[_KEYS[key]] = value
    return Source(Path(text[: tail.start()]), labels.get("language"), labels.get("domain"))


def find_files(sources: Sequence[Source]) -> list[CorpusFile]:
    """All files of the sources: folders recursively, by name, without hidden files; links to folders are not followed.

    A file that a folder holds under two names (links) is taken once.

    Raises:
        InputError: a path that is not there, a folder without files, or a file named twice.
    """
    found: list[CorpusFile] = []
    for source in sources:
        if source.path.is_file():
            name = source.path.name if source.path.is_absolute() else source.path.as_posix()
            found.append(CorpusFile(source.path, name, source, listed=True))
        elif source.path.is_dir():
            below = _walk(source.path)
            if not below:
                raise InputError(f"The folder {source.path} holds no files; name one that does.")
            top = Path(source.path.absolute().name)
            found += [
                CorpusFile(p, (top / p.relative_to(source.path)).as_posix(), source, listed=False)
                for p in below
            ]
        else:
            raise InputError(f"There is no file or folder {source.path}; check the path.")
    seen: dict[Path, CorpusFile] = {}
    for file in found:
        first = seen.setdefault(file.path.resolve(), file)
        if first is not file and (file.listed or first.source is not file.source):
            raise InputError(f"{file.path} is named twice, so its text would count twice; name it once.")
    return list(seen.values())


def _walk(folder: Path) -> list[Path]:
    files: list[Path] = []
    for root, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        files += [Path(root, name) for name in names if not name.startswith(".")]
    return sorted(path for path in files if path.is_file())
