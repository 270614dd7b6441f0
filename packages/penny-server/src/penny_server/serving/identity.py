"""Which checkpoint is served: a digest over its small files and the headers of its weights, read with progress."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penny_server.profiles import Launch
from penny_server.serving.phases import Event, amount

WHOLE_BYTES = 64 << 20
"""Files up to this size are read whole; of larger weights only the header, which names every tensor."""
BLOCK_BYTES = 8 << 20
HEADER_MOST = 100_000_000
EVERY_S = 0.2
SUFFIXES = {".safetensors", ".json", ".jinja", ".txt", ".model", ".pt"}


@dataclass(frozen=True)
class Identity:
    """``what`` is served, in a few words, from ``folders``: the model's and, where it has one, the draft's."""

    what: str
    folders: tuple[Path, ...]

    def events(self) -> Iterator[Event]:
        """Reads the files; events of the phase ``identity``, at most five a second and one at the end."""
        files = [file for folder in self.folders for file in _files(folder)]
        total, done, last = sum(_read_bytes(file) for file in files), 0, 0.0
        digest = hashlib.sha256()
        for file in files:
            digest.update(f"{file.name}\0{file.stat().st_size}\0".encode())
            for block in _blocks(file):
                digest.update(block)
                done += len(block)
                if (now := time.time()) - last >= EVERY_S:
                    last = now
                    yield self._event("progress", bytes=done, of=total, fraction=done / max(total, 1))
        note = f"{self.what}, sha256 {digest.hexdigest()[:12]} over {amount(done)} in {len(files)} files"
        yield Event(time.time(), "identity", "end", {"note": note if files else self.what})

    def _event(self, state: str, **detail: Any) -> Event:
        return Event(time.time(), "identity", state, {"note": self.what, **detail})


def folders(launch: Launch) -> tuple[Path, ...]:
    """The folders that a launch loads weights from."""
    draft = launch.settings.get("speculative_draft_model_path")
    own = [Path(str(draft))] if draft and Path(str(draft)) != launch.checkpoint else []
    return (launch.checkpoint, *own)


def _files(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted(file for file in folder.iterdir() if file.suffix in SUFFIXES and file.is_file())


def _read_bytes(file: Path) -> int:
    size = file.stat().st_size
    if size <= WHOLE_BYTES:
        return size
    if file.suffix != ".safetensors":
        return 0
    with file.open("rb") as stream:
        return min(8 + int.from_bytes(stream.read(8), "little"), size, HEADER_MOST)


def _blocks(file: Path) -> Iterator[bytes]:
    left = _read_bytes(file)
    with file.open("rb") as stream:
        while left and (block := stream.read(min(left, BLOCK_BYTES))):
            left -= len(block)
            yield block
