"""Safetensors headers, read without touching the data.

Format: 8 bytes little-endian header length, that many bytes of JSON, then the data; ``data_offsets`` in
the JSON count from the end of the header (github.com/huggingface/safetensors, "Format").
"""

import json
import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penny_models.checkpoint.errors import CheckpointError

MAX_HEADER_BYTES = 100_000_000
"""The limit of the safetensors library."""

DTYPE_BITS: dict[str, int] = {
    "BOOL": 8,
    "U8": 8,
    "I8": 8,
    "F8_E4M3": 8,
    "F8_E5M2": 8,
    "F8_E8M0": 8,
    "I16": 16,
    "U16": 16,
    "F16": 16,
    "BF16": 16,
    "I32": 32,
    "U32": 32,
    "F32": 32,
    "I64": 64,
    "U64": 64,
    "F64": 64,
}


@dataclass(frozen=True)
class TensorInfo:
    """One tensor as its header describes it: safetensors dtype name, shape, bytes and the file's name."""

    dtype: str
    shape: tuple[int, ...]
    bytes: int
    shard: str


def _tensor(name: str, entry: Any, shard: Path) -> tuple[TensorInfo, int]:
    try:
        dtype = str(entry["dtype"])
        shape = tuple(int(size) for size in entry["shape"])
        begin, end = (int(offset) for offset in entry["data_offsets"])
    except (TypeError, KeyError, ValueError, OverflowError) as error:
        raise CheckpointError(
            f"The header of {shard} describes {name} without a dtype, a shape and two offsets; "
            "the file is damaged: fetch it again."
        ) from error
    bits = DTYPE_BITS.get(dtype)
    if bits is not None and (end - begin) * 8 != math.prod(shape) * bits:
        raise CheckpointError(
            f"The header of {shard} gives {name} {end - begin} bytes, but {dtype} {list(shape)} takes "
            f"{math.prod(shape) * bits // 8}; the file is damaged: fetch it again."
        )
    return TensorInfo(dtype, shape, end - begin, shard.name), end


def read_header(shard: Path) -> dict[str, TensorInfo]:
    """Return the tensors that a safetensors file announces.

    Raises:
        CheckpointError: no valid header, or a file shorter or longer than its header says.
    """
    size = shard.stat().st_size
    with shard.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        if size < 8 or not 2 <= length <= MAX_HEADER_BYTES or 8 + length > size:
            raise CheckpointError(
                f"{shard} ({size} bytes) ends inside its safetensors header; it is truncated or no "
                "safetensors file: fetch it again."
            )
        raw = file.read(length)
    try:
        header = json.loads(raw)
    except (ValueError, RecursionError) as error:
        raise CheckpointError(
            f"The header of {shard} is not JSON; the file is damaged: fetch it again."
        ) from error
    if not isinstance(header, dict):
        raise CheckpointError(
            f"The header of {shard} is not a JSON object; the file is damaged: fetch it again."
        )
    header.pop("__metadata__", None)
    tensors: dict[str, TensorInfo] = {}
    data_end = 0
    for name, entry in header.items():
        tensors[name], end = _tensor(name, entry, shard)
        data_end = max(data_end, end)
    expected = 8 + length + data_end
    if size != expected:
        state = "truncated" if size < expected else "longer than it should be"
        raise CheckpointError(
            f"{shard} is {state}: it has {size} bytes and its header announces {expected}; fetch it again."
        )
    return tensors
