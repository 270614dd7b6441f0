"""The documents in folders."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from penny_bench.errors import BenchError
from penny_bench.history.point import Entry, entry_of
from penny_bench.report import read_document
from penny_bench.report.read import DECODE, RUN


@dataclass(frozen=True)
class Found:
    """What folders held.

    Attributes:
        entries: one for each document; the same bytes count once.
        left_out: files that were left out, each with the reason.
    """

    entries: tuple[Entry, ...]
    left_out: tuple[tuple[str, str], ...]


def find(paths: Iterable[Path]) -> Found:
    """Read all JSON files in folders and below, and files that are named.

    Raises:
        BenchError: a path is not there, or nothing was found.
    """
    entries: dict[str, Entry] = {}
    left_out: list[tuple[str, str]] = []
    for path in _files(paths):
        try:
            entry = entry_of(read_document(path, (RUN, DECODE)))
        except BenchError as error:
            left_out.append((path.name, str(error)))
            continue
        if entry.sha256 in entries:
            left_out.append((path.name, f"It is the same as {entries[entry.sha256].name}."))
        entries.setdefault(entry.sha256, entry)
    if not entries:
        reason = f" The first of {len(left_out)} that were left out: {left_out[0][1]}" if left_out else ""
        raise BenchError(
            f"No result of penny-bench was found; give folders with files made with --json.{reason}"
        )
    return Found(tuple(entries.values()), tuple(left_out))


def _files(paths: Iterable[Path]) -> list[Path]:
    found: list[Path] = []
    for path in paths:
        if path.is_dir():
            found += sorted(path.rglob("*.json"))
        elif path.is_file():
            found.append(path)
        else:
            raise BenchError(f"There is no {path}; give a folder of results, or a file.")
    return list(dict.fromkeys(found))
