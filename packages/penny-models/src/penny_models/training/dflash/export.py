"""Write a trained draft in the form that SGLang loads."""

from pathlib import Path

import torch

from penny_models.training.data import write_json
from penny_models.training.dflash.model import DraftModel
from penny_models.training.processors import Json
from penny_models.training.shard_files import read_shards, write_shards

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
    paths = write_shards(tensors, folder)
    write_json(folder / "config.json", config)
    return paths


def read_draft(draft: DraftModel, folder: Path) -> None:
    """Put the weights of a folder into a draft; every name on both sides must match."""
    with torch.no_grad():
        draft.load_state_dict({name: value.float() for name, value in read_shards(folder).items()})
