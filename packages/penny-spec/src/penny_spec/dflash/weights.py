"""Tensors out of a checkpoint folder, and a check that they are exactly those that a draft has."""

import json
import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

_DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
}


def read_tensors(folder: Path) -> dict[str, Tensor]:
    """The tensors of all `*.safetensors` files that the index names, or of `model.safetensors` without an index.

    Files are mapped, not copied; the format is https://huggingface.co/docs/safetensors.

    Raises:
        FileNotFoundError: neither an index nor a single file, or a file that the index names is missing.
        ValueError: a file is cut short or damaged, holds another dtype than float 16 to 64, or lacks a tensor of
            the index.
    """
    index = folder / "model.safetensors.index.json"
    if not index.is_file():
        return read_file(folder / "model.safetensors")
    try:
        placed: dict[str, str] = dict(json.loads(index.read_text(encoding="utf-8"))["weight_map"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{index} holds no weight_map ({error!r}); copy the file again.") from error
    tensors: dict[str, Tensor] = {}
    for name in sorted(set(placed.values())):
        if Path(name).name != name:
            raise ValueError(f"{index} names the file {name!r}; files must lie in the folder itself.")
        tensors |= read_file(folder / name)
    missing = sorted(placed.keys() - tensors.keys())
    if missing:
        raise ValueError(f"{index} names {len(missing)} tensors that its files lack, first {missing[0]}.")
    return tensors


def read_file(path: Path) -> dict[str, Tensor]:
    """The tensors of one safetensors file.

    Raises:
        FileNotFoundError: there is no such file.
        ValueError: as `read_tensors`.
    """
    if not path.is_file():
        raise FileNotFoundError(f"There is no file {path}; copy the whole checkpoint.")
    size = path.stat().st_size
    data = np.memmap(path, dtype=np.uint8, mode="c") if size else np.zeros(0, dtype=np.uint8)
    start = 8 + int.from_bytes(data[:8].tobytes(), "little")
    if size < 8 or start > size:
        raise ValueError(f"{path} has {size} bytes, fewer than its header names; copy the file again.")
    try:
        header = json.loads(data[8:start].tobytes())
        header.pop("__metadata__", None)
        return {name: _tensor(data, start, entry) for name, entry in header.items()}
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ValueError(f"{path} is no readable safetensors file ({error}); copy the file again.") from error


def _tensor(data: Any, start: int, entry: Mapping[str, Any]) -> Tensor:
    shape, (first, last) = entry["shape"], entry["data_offsets"]
    dtype = _DTYPES.get(entry["dtype"])
    if dtype is None:
        raise ValueError(f"it holds {entry['dtype']} weights; a draft is read in {', '.join(_DTYPES)}")
    count = math.prod(shape)
    if not 0 <= first <= last <= len(data) - start or last - first != count * dtype.itemsize:
        raise ValueError(f"bytes {first} to {last} cannot hold a tensor of shape {shape}")
    if count == 0:
        return torch.empty(shape, dtype=dtype)
    return torch.frombuffer(data, dtype=dtype, count=count, offset=start + first).view(shape)


def match(found: Mapping[str, Tensor], wanted: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """`found` without an optional `model.` before names, after a check of names and shapes against `wanted`.

    Stock SGLang skips names that it does not know and does not miss any, so that a misnamed tensor runs as zeros or
    as what the memory held. Buffers of rotary frequencies are skipped here too.

    Raises:
        ValueError: a tensor is missing, unknown or of another shape; the message names the first one.
    """
    named = {name.removeprefix("model."): value for name, value in found.items()}
    named = {name: value for name, value in named.items() if not name.endswith("rotary_emb.inv_freq")}
    missing, unknown = sorted(wanted.keys() - named.keys()), sorted(named.keys() - wanted.keys())
    if missing:
        also = f" It holds {unknown[0]}, which this draft does not have." if unknown else ""
        raise ValueError(
            f"The checkpoint lacks {len(missing)} of {len(wanted)} tensors, first {missing[0]}.{also} "
            "Copy the whole checkpoint, with the config.json that belongs to it."
        )
    if unknown:
        raise ValueError(
            f"The checkpoint holds {len(unknown)} tensors that its config.json has no place for, first "
            f"{unknown[0]}. Use the config.json that belongs to it."
        )
    for name, value in named.items():
        if value.shape != wanted[name].shape:
            raise ValueError(
                f"{name} has shape {tuple(value.shape)}; by its config.json it must be "
                f"{tuple(wanted[name].shape)}."
            )
    return named
