"""Write a trained model as sharded safetensors in the names that transformers and SGLang read."""

import json
from pathlib import Path

import torch
from safetensors.torch import save_file
from torch import Tensor

from penny_models.training.model import TinyModel

SHARD_BYTES = 3_900_000


def checkpoint_tensors(model: TinyModel) -> dict[str, Tensor]:
    """Return the tensors to save: bfloat16, but ``A_log`` as float32 holding a bfloat16 value.

    So a loader that casts ``A_log`` to bfloat16 and one that keeps it in float32 compute the same.
    """
    named = dict(model.base.state_dict())
    named.update({f"mtp.{name}": value for name, value in model.mtp.state_dict().items()})
    rounded = {name: value.detach().cpu().to(torch.bfloat16) for name, value in named.items()}
    return {
        name: (value.float() if name.endswith("A_log") else value).contiguous()
        for name, value in rounded.items()
    }


def write_checkpoint(model: TinyModel, folder: Path) -> list[Path]:
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
