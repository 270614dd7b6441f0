"""Write a trained model as sharded safetensors in the names that transformers and SGLang read."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from penny_models.training.shard_files import write_shards

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
    """Write the shards of a model and their index into ``folder``; return the shard paths."""
    return write_shards(checkpoint_tensors(model), folder)
