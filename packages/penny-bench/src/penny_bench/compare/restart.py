"""One restart of a server: the result files that were measured between its start and its end."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from pathlib import Path

from penny_bench.compare.document import Document, read_document
from penny_bench.compare.value import Place, Value
from penny_bench.errors import BenchError


@dataclass(frozen=True)
class Restart:
    """What was measured on a server between its start and its end.

    Attributes:
        name: of the file or the folder, as it was given.
        documents: its result files, at least one, each of a workload of its own.
    """

    name: str
    documents: tuple[Document, ...]

    @property
    def started(self) -> datetime:
        """When the first of them was measured."""
        return min(document.started for document in self.documents)

    @cached_property
    def values(self) -> dict[Place, Value]:
        """All numbers by place, in the order of the documents."""
        return {
            Place(document.workload, *key): value
            for document in self.documents
            for key, value in document.values.items()
        }

    @cached_property
    def phases(self) -> set[tuple[str, str]]:
        """Every workload with every phase of it."""
        return {(place.workload, place.phase) for place in self.values}


def read_restart(paths: Sequence[Path], name: str | None = None) -> Restart:
    """Read the result files of one restart; where two are of one workload, their file names tell them apart.

    Raises:
        BenchError: a file cannot be read, or is no result.
    """
    documents = [read_document(path) for path in paths]
    of = Counter(document.workload for document in documents)
    return Restart(
        name or str(paths[0]),
        tuple(
            replace(document, workload=f"{document.workload} ({path.stem})")
            if of[document.workload] > 1
            else document
            for path, document in zip(paths, documents, strict=True)
        ),
    )


def read_side(text: str) -> list[Restart]:
    """Read the restarts of one side in the order in which they were measured.

    Args:
        text: a file for each restart, or a folder of them, or a folder with a folder for each restart, which
            holds its files; several of these with commas between.

    Raises:
        BenchError: a path does not exist, a folder holds no result or both forms, or a file is none.
    """
    restarts: list[Restart] = []
    for part in [text] if Path(text).exists() else text.split(","):
        path = Path(part)
        restarts += _read_folder(path) if path.is_dir() else [read_restart([path])]
    return sorted(restarts, key=lambda restart: restart.started)


def _read_folder(folder: Path) -> list[Restart]:
    files = sorted(folder.glob("*.json"))
    folders = {inner: found for inner in sorted(folder.iterdir()) if (found := sorted(inner.glob("*.json")))}
    if files and folders:
        raise BenchError(
            f"The folder {folder} holds results beside the folder {next(iter(folders)).name}; put either one file "
            f"or one folder a restart into it."
        )
    if not files and not folders:
        raise BenchError(
            f"There is no *.json in the folder {folder}; put one result, or one folder of them, a restart into it."
        )
    return [read_restart([file]) for file in files] or [
        read_restart(found, str(inner)) for inner, found in folders.items()
    ]
