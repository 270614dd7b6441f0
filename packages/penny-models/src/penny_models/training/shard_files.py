"""Safetensors shards and their index: the files of every tiny checkpoint."""

import json
from pathlib import Path

from safetensors.torch import load_file, save_file
from torch import Tensor

SHARD_BYTES = 3_900_000
"""Bytes of tensors in a shard; with its header a file stays below 4,000,000."""


def write_shards(tensors: dict[str, Tensor], folder: Path) -> list[Path]:
    """Write tensors, sorted by name, as the only shards of ``folder``, with their index; return the shards."""
    shards: list[dict[str, Tensor]] = [{}]
    room = SHARD_BYTES
    total = 0
    for name, tensor in sorted(tensors.items()):
        size = tensor.numel() * tensor.element_size()
        if size > room:
            shards.append({})
            room = SHARD_BYTES
        shards[-1][name] = tensor
        room -= size
        total += size
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.safetensors"):
        old.unlink()
    paths = [folder / f"model-{i:05d}-of-{len(shards):05d}.safetensors" for i in range(1, len(shards) + 1)]
    for path, shard in zip(paths, shards, strict=True):
        save_file(shard, path, metadata={"format": "pt"})
        path.chmod(0o644)
    weight_map = {name: path.name for path, shard in zip(paths, shards, strict=True) for name in shard}
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
    return paths


def read_shards(folder: Path) -> dict[str, Tensor]:
    """Return the tensors of all shards of a folder."""
    tensors: dict[str, Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        tensors |= load_file(path)
    return tensors
