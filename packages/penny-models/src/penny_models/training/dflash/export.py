"""Write a trained draft in the form that SGLang loads."""

from pathlib import Path

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor

from penny_models.training.data import write_json
from penny_models.training.dflash.model import DraftModel
from penny_models.training.export import SHARD_BYTES
from penny_models.training.processors import Json

LIMIT_BYTES = 5_000_000
"""The whole draft, configuration included."""


def write_draft(draft: DraftModel, config: Json, folder: Path) -> list[Path]:
    """Write ``config.json``, bfloat16 shards below 4,000,000 bytes and their index; return the shards.

    Raises:
        ValueError: the files would be larger than ``LIMIT_BYTES`` together; nothing is written then.
    """
    tensors = {name: value.detach().cpu().bfloat16() for name, value in sorted(draft.state_dict().items())}
    total = sum(value.numel() * value.element_size() for value in tensors.values())
    if total > LIMIT_BYTES - 50_000:
        raise ValueError(
            f"The draft has {total:,} bytes of weights; with its headers it may have {LIMIT_BYTES:,}. "
            "Take fewer layers or a smaller selector rank."
        )
    shards: list[dict[str, Tensor]] = [{}]
    room = SHARD_BYTES
    for name, value in tensors.items():
        size = value.numel() * value.element_size()
        if size > room:
            shards.append({})
            room = SHARD_BYTES
        shards[-1][name] = value
        room -= size
    folder.mkdir(parents=True, exist_ok=True)
    for old in folder.glob("*.safetensors"):
        old.unlink()
    paths = [folder / f"model-{i:05d}-of-{len(shards):05d}.safetensors" for i in range(1, len(shards) + 1)]
    for path, shard in zip(paths, shards, strict=True):
        save_file(shard, path, metadata={"format": "pt"})
        path.chmod(0o644)
    weight_map = {name: path.name for path, shard in zip(paths, shards, strict=True) for name in shard}
    write_json(
        folder / "model.safetensors.index.json", {"metadata": {"total_size": total}, "weight_map": weight_map}
    )
    write_json(folder / "config.json", config)
    return paths


def read_draft(draft: DraftModel, folder: Path) -> None:
    """Put the weights of a folder into a draft; every name on both sides must match."""
    tensors: dict[str, Tensor] = {}
    for path in sorted(folder.glob("*.safetensors")):
        tensors |= load_file(path)
    with torch.no_grad():
        draft.load_state_dict({name: value.float() for name, value in tensors.items()})
