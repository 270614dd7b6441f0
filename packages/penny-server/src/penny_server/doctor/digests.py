"""Digests of the files that decide what a model says, and those that the reference pins."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from pathlib import Path

from penny_server.doctor.base import Case

SMALL = (
    "config.json",
    "generation_config.json",
    "model.safetensors.index.json",
    "tokenizer.json",
    "tokenizer_config.json",
    "chat_template.jinja",
)
HEADER_MOST = 100_000_000
PINS: Mapping[str, str] = {
    "qwen-fixed-v22.5.jinja": "e57684bae4156211a55473c5a63be976a405a37ab5be5ae0e5abf1df5349c4b2",
    "flash-next-64k.pt": "becfa41d394b86c26c632bea8f3c6ea64bbb76d7b238d8673c06afae21269f25",
}
"""sha256 by file name; the map belongs to the tokenizer of Flash-Next (`MAP_TOKENIZER`)."""
MAP_TOKENIZER = "0997f410c57a1f4e53b09e4be8f4a172d90edd9564368fb0847030937229b9f3"


def sha256(file: Path) -> str:
    """The digest of a file. Raises OSError."""
    with file.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()


def weights_digest(folder: Path) -> str:
    """A digest over the name, size and header of each weight file, which names tensors, shapes and dtypes.

    The values are not read: that would take as long as loading them.
    """
    total = hashlib.sha256()
    for shard in sorted(folder.glob("*.safetensors")):
        with shard.open("rb") as stream:
            length = stream.read(8)
            header = stream.read(min(int.from_bytes(length, "little"), HEADER_MOST))
        total.update(json.dumps([shard.name, shard.stat().st_size]).encode() + length + header)
    return total.hexdigest()


def folder_digests(folder: Path) -> dict[str, str]:
    """The digests of a checkpoint: its small files by name, and ``weights``. Raises OSError."""
    found = {name: sha256(folder / name) for name in SMALL if (folder / name).is_file()}
    return {**found, "weights": weights_digest(folder)}


def chosen_file(case: Case, setting: str, need: str) -> Path | None:
    """The file that a setting names, None where it names none or belongs to a feature that is not built."""
    value = case.setting(setting)
    if not value or (case.launch is not None and need in case.launch.needs):
        return None
    path = Path(str(value)).expanduser()
    return path if path.suffix or path.is_absolute() else None


def draft_folder(case: Case) -> Path | None:
    """The folder of the draft model if it has one of its own."""
    path = case.setting("speculative_draft_model_path")
    own = path and case.launch is not None and Path(str(path)) != case.launch.checkpoint
    return Path(str(path)) if own else None


def unpinned(files: Iterable[Path]) -> Iterable[tuple[Path, str, str]]:
    """Files with a pinned name and another digest: the file, what was found and what was expected."""
    for file in files:
        expected = PINS.get(file.name)
        if expected is not None and (found := sha256(file)) != expected:
            yield file, found, expected
