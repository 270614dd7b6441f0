"""The tensors of the vision tower, which text-only serving may leave out."""

from pathlib import Path
from typing import Any

from penny_models.checkpoint.expected import Shapes
from penny_models.checkpoint.text_config import positive_int


def _linear(prefix: str, rows: int, columns: int) -> Shapes:
    return {f"{prefix}.weight": (rows, columns), f"{prefix}.bias": (rows,)}


def _norm(prefix: str, size: int) -> Shapes:
    return {f"{prefix}.weight": (size,), f"{prefix}.bias": (size,)}


def vision_tensors(vision: dict[str, Any], where: Path) -> Shapes:
    """Return the vision tower's tensors for ``vision_config`` (``depth`` may be zero).

    Raises:
        CheckpointError: a field is missing or not a positive whole number.
    """
    hidden = positive_int(vision, "hidden_size", where)
    inner = positive_int(vision, "intermediate_size", where)
    patch = positive_int(vision, "patch_size", where)
    frames = positive_int(vision, "temporal_patch_size", where)
    channels = positive_int(vision, "in_channels", where)
    positions = positive_int(vision, "num_position_embeddings", where)
    merged = hidden * positive_int(vision, "spatial_merge_size", where) ** 2
    prefix = "model.visual."
    shapes: Shapes = {
        f"{prefix}patch_embed.proj.weight": (hidden, channels, frames, patch, patch),
        f"{prefix}patch_embed.proj.bias": (hidden,),
        f"{prefix}pos_embed.weight": (positions, hidden),
        **_norm(f"{prefix}merger.norm", hidden),
        **_linear(f"{prefix}merger.linear_fc1", merged, merged),
        **_linear(f"{prefix}merger.linear_fc2", positive_int(vision, "out_hidden_size", where), merged),
    }
    for index in range(positive_int(vision, "depth", where) if vision.get("depth") else 0):
        block = f"{prefix}blocks.{index}."
        shapes |= _norm(f"{block}norm1", hidden) | _norm(f"{block}norm2", hidden)
        shapes |= _linear(f"{block}attn.qkv", 3 * hidden, hidden)
        shapes |= _linear(f"{block}attn.proj", hidden, hidden)
        shapes |= _linear(f"{block}mlp.linear_fc1", inner, hidden)
        shapes |= _linear(f"{block}mlp.linear_fc2", hidden, inner)
    return shapes
