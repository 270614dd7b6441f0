"""The map file: a 1-D int64 tensor, as `--speculative-token-map` of stock SGLang loads it."""

import hashlib
import io
import os
import pickle
import tempfile
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor

from penny_spec.frspec.errors import InputError, MapError


def load_map(path: Path, vocabulary: int | None = None) -> Tensor:
    """Read a map and check its form. Code in the file is never executed.

    Args:
        path: file written by `torch.save`.
        vocabulary: rows of the target's head; ids must lie below. None leaves the upper end open.

    Returns:
        int64 `(rows,)` on the CPU: ids that ascend, each once.

    Raises:
        InputError: there is no such file.
        MapError: what is in the file is no map; the sentence says why.
    """
    if not path.is_file():
        raise InputError(
            f"There is no file {path}; give the path of a map that `penny-spec map build` wrote."
        )
    try:
        ids = torch.load(path, map_location="cpu", weights_only=True)
    except (
        pickle.UnpicklingError,
        RuntimeError,
        EOFError,
        ValueError,
        KeyError,
        IndexError,
        TypeError,
    ) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise MapError(
            f"{path} cannot be read as a tensor file without executing code ({reason}). "
            "Nothing of it was executed; rebuild the map."
        ) from error
    return check_ids(ids, str(path), vocabulary)


def check_ids(ids: object, name: str, vocabulary: int | None = None) -> Tensor:
    """Give back `ids` if an int64 `(rows,)` tensor of ascending ids, each once, in range; else raise `MapError`."""
    if not isinstance(ids, Tensor):
        raise MapError(f"{name} holds a {type(ids).__name__}; a map is a 1-D int64 tensor.")
    if ids.layout is not torch.strided or ids.device.type != "cpu" or ids.dim() != 1:
        raise MapError(
            f"{name} holds a {ids.layout} tensor of shape {tuple(ids.shape)} on {ids.device}; "
            "a map is a dense 1-D tensor."
        )
    if ids.dtype != torch.int64:
        raise MapError(f"{name} holds {ids.dtype}; ids are int64. Convert the tensor with .long().")
    if not ids.numel():
        raise MapError(f"{name} is empty; a map has at least one id.")
    if vocabulary is not None and ids.numel() > vocabulary:
        raise MapError(f"{name} has {ids.numel():,} rows, the vocabulary {vocabulary:,}; rebuild the map.")
    if not ids.is_contiguous():
        raise MapError(f"{name} holds a strided view; save a contiguous tensor.")
    if int(ids.min()) < 0:
        raise MapError(f"{name} holds id {int(ids.min())}; ids are not negative.")
    if vocabulary is not None and int(ids.max()) >= vocabulary:
        raise MapError(
            f"{name} holds id {int(ids.max()):,}; the vocabulary ends at {vocabulary - 1:,}. "
            "It was made for another model."
        )
    steps = ids[1:] <= ids[:-1]
    if bool(steps.any()):
        at = int(steps.nonzero()[0]) + 1
        before, here = int(ids[at - 1]), int(ids[at])
        fault = "twice" if here == before else f"after {before}"
        raise MapError(f"{name} holds id {here} {fault} (row {at}); ids ascend, each once. Rebuild the map.")
    return ids


def map_bytes(ids: Sequence[int]) -> bytes:
    """The file of a map; equal ids give equal bytes under one torch version."""
    buffer = io.BytesIO()
    torch.save(torch.tensor(ids, dtype=torch.int64), buffer)
    return buffer.getvalue()


def ids_sha256(ids: Tensor | Sequence[int]) -> str:
    """SHA-256 in hex of the ids as little-endian int64: the identity of a map, whatever file holds it."""
    tensor = torch.as_tensor(ids, dtype=torch.int64)
    return hashlib.sha256(tensor.numpy().astype("<i8").tobytes()).hexdigest()


def file_sha256(path: Path) -> str:
    """SHA-256 in hex of a file's bytes."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a reader sees the old one or the new one, never a part."""
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        mask = os.umask(0)
        os.umask(mask)
        Path(name).chmod(0o666 & ~mask)
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise
