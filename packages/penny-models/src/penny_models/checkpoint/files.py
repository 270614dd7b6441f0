"""The JSON, tokenizer and weight files of a checkpoint folder."""

import json
from pathlib import Path
from typing import Any

from penny_models.checkpoint.errors import CheckpointError, counted, first_names
from penny_models.checkpoint.headers import TensorInfo, read_header

INDEX = "model.safetensors.index.json"
SINGLE = "model.safetensors"


def read_json_object(path: Path) -> dict[str, Any]:
    """Read a JSON object; a missing file, broken JSON or another value is a ``CheckpointError``."""
    if not path.is_file():
        raise CheckpointError(f"{path.parent} has no {path.name}; a checkpoint folder needs one.")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} is not valid JSON ({error}); fetch it again.") from error
    if not isinstance(value, dict):
        raise CheckpointError(f"{path} holds a JSON {type(value).__name__}; expected an object.")
    return value


def require_tokenizer(folder: Path) -> None:
    """Check that a tokenizer is there and whole; ``CheckpointError`` says which file is not."""
    read_json_object(folder / "tokenizer_config.json")
    fast = folder / "tokenizer.json"
    if fast.is_file():
        if not fast.read_bytes()[-64:].rstrip().endswith(b"}"):
            raise CheckpointError(f"{fast} does not end as JSON does; it is truncated: fetch it again.")
        return
    missing = [name for name in ("vocab.json", "merges.txt") if not (folder / name).is_file()]
    if missing:
        raise CheckpointError(
            f"{folder} has no tokenizer: neither tokenizer.json nor vocab.json with merges.txt was found; "
            "copy the tokenizer files of the model into it."
        )


def read_tensors(folder: Path) -> tuple[dict[str, TensorInfo], int]:
    """Return every tensor of the folder's safetensors files, and the number of files.

    Raises:
        CheckpointError: no weights, an index that does not hold, a missing or damaged shard.
    """
    if not (folder / INDEX).is_file():
        if not (folder / SINGLE).is_file():
            raise CheckpointError(f"{folder} has no weights: neither {INDEX} nor {SINGLE} was found.")
        return read_header(folder / SINGLE), 1
    weight_map = read_json_object(folder / INDEX).get("weight_map")
    if not isinstance(weight_map, dict) or not weight_map:
        raise CheckpointError(f"{folder / INDEX} has no weight_map object; fetch it again.")
    shards = sorted({str(shard) for shard in weight_map.values()})
    absent = [shard for shard in shards if not (folder / shard).is_file()]
    if absent:
        raise CheckpointError(
            f"{folder} lacks {counted(absent, 'shard')} of the {len(shards)} that {INDEX} names: "
            f"{first_names(absent)}; fetch the missing files."
        )
    tensors: dict[str, TensorInfo] = {}
    for shard in shards:
        tensors.update(read_header(folder / shard))
    moved = [n for n, s in weight_map.items() if n in tensors and tensors[n].shard != s]
    if moved:
        raise CheckpointError(
            f"{INDEX} of {folder} looks for {counted(moved, 'tensor')} in the wrong shard: "
            f"{first_names(moved)}; fetch the index and the shards of one version."
        )
    unlisted = [name for name in tensors if name not in weight_map]
    if unlisted:
        raise CheckpointError(
            f"{INDEX} of {folder} does not list {counted(unlisted, 'tensor')} that the shards hold: "
            f"{first_names(unlisted)}; fetch the index and the shards of one version."
        )
    return tensors, len(shards)
