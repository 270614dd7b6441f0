"""Write a trained model as sharded safetensors in the names that transformers and SGLang read."""

import json
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

SHARD_BYTES = 3_900_000
TABLE = ".ngram_embedding.weight"


def _saved(name: str, value: Tensor) -> Tensor:
    """Round to bfloat16, but keep integers, and ``A_log`` as float32 holding a bfloat16 value.

    So a loader that casts ``A_log`` to bfloat16 and one that keeps it in float32 compute the same.
    """
    value = value.detach().cpu()
    if not value.is_floating_point():
        return value.contiguous()
    rounded = value.to(torch.bfloat16)
    return (rounded.float() if name.endswith("A_log") else rounded).contiguous()


def split_table(table: Tensor, parts: int) -> list[Tensor]:
    """Split a PLE table [rows, width] into the ``parts`` shards of a checkpoint: equal, but the last may be shorter."""
    return list(table.split(-(-len(table) // parts)))


def checkpoint_tensors(model: Any) -> dict[str, Tensor]:
    """Return the tensors to save of a model with ``base`` (transformers') and ``mtp``, as ``_saved`` rounds them.

    A PLE table is saved in ``split_ngram_parts`` shards, the only form that SGLang loads.
    """
    named = dict(model.base.state_dict())
    named.update({f"mtp.{name}": value for name, value in model.mtp.state_dict().items()})
    tensors: dict[str, Tensor] = {}
    for name, value in named.items():
        if name.endswith(TABLE):
            stem = name.removesuffix("weight")
            shards = split_table(_saved(name, value), model.base.config.text_config.split_ngram_parts)
            tensors |= {f"{stem}shard_{index}.weight": shard.clone() for index, shard in enumerate(shards)}
        else:
            tensors[name] = _saved(name, value)
    return tensors


def load_tensors(model: Any, tensors: dict[str, Tensor]) -> None:
    """Put the tensors of a checkpoint into a model, exactly: every name on both sides must match."""
    base = {
        name: value
        for name, value in tensors.items()
        if not name.startswith("mtp.") and ".shard_" not in name
    }
    for name in model.base.state_dict():
        if name.endswith(TABLE):
            stem = name.removesuffix("weight")
            count = sum(other.startswith(f"{stem}shard_") for other in tensors)
            base[name] = torch.cat([tensors[f"{stem}shard_{index}.weight"] for index in range(count)])
    mtp = {name.removeprefix("mtp."): value for name, value in tensors.items() if name.startswith("mtp.")}
    model.base.load_state_dict(base)
    model.mtp.load_state_dict(mtp)


def write_checkpoint(model: nn.Module, folder: Path) -> list[Path]:
    """Write shards below 4,000,000 bytes and their index into ``folder``; return the shard paths."""
    folder.mkdir(parents=True, exist_ok=True)
    shards: list[dict[str, Tensor]] = [{}]
    room = SHARD_BYTES
    total = 0
    for name, tensor in sorted(checkpoint_tensors(model).items()):
        size = tensor.numel() * tensor.element_size()
        if size > room:
            shards.append({})
            room = SHARD_BYTES
        shards[-1][name] = tensor
        room -= size
        total += size
    paths = [folder / f"model-{i:05d}-of-{len(shards):05d}.safetensors" for i in range(1, len(shards) + 1)]
    for path, tensors in zip(paths, shards, strict=True):
        save_file(tensors, path, metadata={"format": "pt"})
        path.chmod(0o644)
    weight_map = {name: path.name for path, shard in zip(paths, shards, strict=True) for name in shard}
    index = {"metadata": {"total_size": total}, "weight_map": dict(sorted(weight_map.items()))}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index, indent=2) + "\n")
    return paths
