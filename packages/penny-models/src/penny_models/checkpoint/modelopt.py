"""ModelOpt's NVFP4 and FP8 weights: what a quantised matrix looks like in the file, and its scales."""

from typing import Any

from penny_models.checkpoint.expected import TABLE_SHARD, Shapes
from penny_models.checkpoint.headers import TensorInfo

GROUP = 16
"""Elements that share an NVFP4 scale."""


def is_modelopt(config: dict[str, Any]) -> bool:
    """Whether ``config.json`` says that ModelOpt quantised the checkpoint."""
    quantisation = config.get("quantization_config")
    return isinstance(quantisation, dict) and str(quantisation.get("quant_method")).startswith("modelopt")


def modelopt_tensors(found: dict[str, TensorInfo], expected: Shapes) -> Shapes:
    """Return ``expected`` as a ModelOpt checkpoint holds it.

    A matrix [o, i] that is found as bytes (U8) is NVFP4: two elements a byte, an FP8 scale for each 16 of a row,
    one scale for the matrix and one for its input. One found as F8_E4M3 has one scale for the matrix, and one for
    its input. All others stay as they are, PLE tables too: all shards of one have the table's scale.
    """
    shapes: Shapes = {}
    for name, shape in expected.items():
        matrix = name in found and len(shape) == 2 and name.endswith(".weight") and TABLE_SHARD not in name
        dtype = found[name].dtype if matrix else ""
        stem = name.removesuffix(".weight")
        if dtype == "U8":
            shapes[name] = (shape[0], shape[1] // 2)
            shapes[f"{name}_scale"] = (shape[0], shape[1] // GROUP)
            scalars = [f"{name}_scale_2", f"{stem}.input_scale"]
        else:
            shapes[name] = shape
            scalars = [f"{name}_scale", f"{stem}.input_scale"] if dtype == "F8_E4M3" else []
        # ModelOpt writes a scalar with no dimension or with one.
        shapes |= {s: found[s].shape if s in found and found[s].shape in ((), (1,)) else () for s in scalars}
    return shapes
