"""What a checkpoint on disk is: each file that shapes a model's numbers or its text, by size and sha256.

Weights are hashed in full, unless the Hugging Face downloader left the hash beside them and nothing happened to the
file since. That record, `.cache/huggingface/download/<file>.metadata`, is believed when all of this holds:

- the file is a plain `.safetensors` file, no symbolic link, and as long as its own header says;
- line 1 of the record is a revision (40 hexadecimal digits), line 2 an LFS hash (64), line 3 a time in seconds;
- the file was last written, and last changed in any way (mtime and ctime), no later than a second after that time.

A file that was copied, replaced or touched since is hashed. So are links into the Hugging Face cache: content counts.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import stat
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from penny_cache.namespace.errors import CheckpointError
from penny_cache.namespace.hashes import HashCache
from penny_cache.namespace.identity import canonical_json

INDEX = "model.safetensors.index.json"
NAMED = frozenset(
    {
        "config.json", "generation_config.json", INDEX, "quantization_config.json", "quantize_config.json",
        "hf_quant_config.json", "tokenizer.json", "tokenizer_config.json", "tokenizer.model", "vocab.json",
        "merges.txt", "added_tokens.json", "special_tokens_map.json", "chat_template.json", "chat_template.jinja",
        "preprocessor_config.json", "processor_config.json", "video_preprocessor_config.json",
    }
)  # fmt: skip
"""Files that count, besides `*.safetensors`."""
CHUNK = 8 << 20
SLACK_S = 1.0
"""Seconds by which a file may be younger than its record: file systems round times."""

Progress = Callable[[str, int, int], None]
"""Told a file's name, its bytes that are hashed, and its bytes."""


@dataclass(frozen=True)
class FileDigest:
    """One file of a checkpoint.

    Attributes:
        name: within the checkpoint.
        size: bytes.
        sha256: of its content, 64 hexadecimal digits.
        recorded: whether the hash is the downloader's, not computed here; no part of the identity.
    """

    name: str
    size: int
    sha256: str
    recorded: bool = False


@dataclass(frozen=True)
class Checkpoint:
    """The files of a checkpoint that count, sorted by name."""

    files: tuple[FileDigest, ...]

    @property
    def fields(self) -> dict[str, object]:
        """For `Identity.of`: `{"files": {name: {"sha256": ..., "size": ...}}}`; where it lies is left out."""
        return {"files": {f.name: {"sha256": f.sha256, "size": f.size} for f in self.files}}

    @property
    def sha256(self) -> str:
        """One digest of it all: sha256 of the canonical JSON of `fields`."""
        return hashlib.sha256(canonical_json(self.fields)).hexdigest()


def digest_checkpoint(
    path: str | os.PathLike[str],
    *,
    recorded: bool = True,
    cache: HashCache | None = None,
    progress: Progress = lambda name, done, size: None,
) -> Checkpoint:
    """The digests of the checkpoint in a directory.

    Args:
        path: with `config.json` and `*.safetensors`. Links to files are followed.
        recorded: whether the downloader's hashes are believed where they may be (see the module).
        cache: hashes of weights that were computed before; none by default.
        progress: called before a file is hashed and after each chunk of 8 MiB; not for recorded hashes.

    Raises:
        CheckpointError: no directory, no `config.json`, no weights, a shard that the index names is missing, an index
            that is none, a file that cannot be read or that changed while it was read.
    """
    path = Path(path)
    names = _names(path)
    return Checkpoint(tuple(_digest(path, name, recorded, cache, progress) for name in names))


def _names(path: Path) -> list[str]:
    try:
        there = {entry.name for entry in os.scandir(path) if not entry.is_dir()}
    except OSError as error:
        raise CheckpointError(f"The checkpoint {path} cannot be listed: {error.strerror}.") from error
    if "config.json" not in there:
        raise CheckpointError(f"{path} has no config.json; give the directory of a Hugging Face checkpoint.")
    weights = {name for name in there if name.endswith(".safetensors")}
    if INDEX in there:
        missing = sorted(_shards(path / INDEX) - there)
        if missing:
            more = f" and {len(missing) - 3} more" if len(missing) > 3 else ""
            raise CheckpointError(
                f"{path} lacks {', '.join(missing[:3])}{more}, which {INDEX} names; download the checkpoint again."
            )
    if not weights:
        raise CheckpointError(f"{path} has no *.safetensors file; its weights cannot be identified.")
    return sorted(weights | (there & NAMED))


def _shards(index: Path) -> set[str]:
    try:
        found = json.loads(index.read_bytes())["weight_map"]
        shards = set(found.values())
    except OSError as error:
        raise CheckpointError(f"{index} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CheckpointError(f"{index} is no index of weights: it has no map `weight_map`.") from error
    wrong = [name for name in shards if not isinstance(name, str) or Path(name).name != name]
    if wrong:
        raise CheckpointError(f"{index} names the shard {wrong[0]!r}, which is no plain file name.")
    return shards


def _digest(path: Path, name: str, recorded: bool, cache: HashCache | None, progress: Progress) -> FileDigest:
    weights = name.endswith(".safetensors")
    try:
        file = os.open(path / name, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(file, "rb", buffering=0) as stream:
            before = os.fstat(file)
            if not stat.S_ISREG(before.st_mode):
                raise CheckpointError(f"{path / name} is no plain file.")
            if recorded and weights and (known := _recorded(path, name, before, file)):
                return FileDigest(name, before.st_size, known, True)
            if cache and weights and (known := cache.get(path / name, before)):
                return FileDigest(name, before.st_size, known)
            found = hashlib.sha256()
            done = 0
            progress(name, 0, before.st_size)
            for chunk in iter(lambda: stream.read(CHUNK), b""):
                found.update(chunk)
                done += len(chunk)
                progress(name, done, before.st_size)
            after = os.fstat(file)
    except OSError as error:
        raise CheckpointError(f"{path / name} cannot be read: {error.strerror}.") from error
    if (done, after.st_mtime_ns, after.st_size) != (before.st_size, before.st_mtime_ns, before.st_size):
        raise CheckpointError(f"{path / name} changed while it was read; wait until its download is over.")
    if cache and weights:
        cache.put(path / name, before, found.hexdigest())
    return FileDigest(name, done, found.hexdigest())


def _recorded(path: Path, name: str, found: os.stat_result, file: int) -> str | None:
    if (path / name).is_symlink():
        return None
    try:
        lines = (path / ".cache/huggingface/download" / f"{name}.metadata").read_text("ascii").splitlines()
        revision, digest, time = lines[0].strip(), lines[1].strip(), float(lines[2])
    except (OSError, ValueError, IndexError):
        return None
    if not re.fullmatch(r"[0-9a-f]{40}", revision) or not re.fullmatch(r"[0-9a-f]{64}", digest):
        return None
    if not max(found.st_mtime, found.st_ctime) <= time + SLACK_S:  # false for NaN too
        return None
    return digest if found.st_size == _stated_size(file, found.st_size) else None


def _stated_size(file: int, size: int) -> int | None:
    """Bytes that a safetensors file should have: 8, its header, and as far as its last tensor goes."""
    length = int.from_bytes(os.pread(file, 8, 0), "little")
    if length > min(size, 1 << 28):
        return None
    try:
        header = json.loads(os.pread(file, length, 8))
        return 8 + length + max((end for _, end in _offsets(header)), default=0)
    except (ValueError, KeyError, TypeError, AttributeError):
        return None


def _offsets(header: Mapping[str, Mapping[str, tuple[int, int]]]) -> Iterator[tuple[int, int]]:
    for name, tensor in header.items():
        if name != "__metadata__":
            start, end = tensor["data_offsets"]
            yield start, end
