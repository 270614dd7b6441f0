"""Block-scaled FP8 weights: which tensors may be FP8, and the scales that must come with them."""

import math
from pathlib import Path
from typing import Any

from penny_models.checkpoint.errors import CheckpointError
from penny_models.checkpoint.expected import TABLE_SHARD, Shapes
from penny_models.checkpoint.headers import TensorInfo


def weight_block(config: dict[str, Any], where: Path) -> tuple[int, int] | None:
    """Return ``weight_block_size`` of an FP8 checkpoint, or None for one that is not quantised.

    Raises:
        CheckpointError: another quantisation, whose tensors this version cannot check.
    """
    quantisation = config.get("quantization_config")
    if quantisation is None:
        return None
    method = quantisation.get("quant_method") if isinstance(quantisation, dict) else quantisation
    block = quantisation.get("weight_block_size") if isinstance(quantisation, dict) else None
    sizes = [size for size in block if type(size) is int and size > 0] if isinstance(block, list) else []
    if method != "fp8" or len(sizes) != 2 or sizes != block:
        raise CheckpointError(
            f"quantization_config in {where} has quant_method {method!r} and weight_block_size {block!r}; "
            "only fp8 with two block sizes above zero can be checked, so use the unquantised or the FP8 "
            "checkpoint."
        )
    return sizes[0], sizes[1]


def scale_tensors(tensors: dict[str, TensorInfo], expected: Shapes, block: tuple[int, int] | None) -> Shapes:
    """Return the ``weight_scale_inv`` tensors that the FP8 tensors among ``expected`` need."""
    if block is None:
        return {}
    return {
        f"{name}_scale_inv": (math.ceil(shape[0] / block[0]), math.ceil(shape[1] / block[1]))
        for name, shape in expected.items()
        if name in tensors
        and tensors[name].dtype == "F8_E4M3"
        and len(shape) == 2
        and TABLE_SHARD not in name  # a PLE table has one scale of its own
    }
