"""How a checkpoint keeps its matrices: ``quantization_config`` to bytes, matrix by matrix."""

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from penny_models.checkpoint.errors import CheckpointError
from penny_models.shapes.base import WIDTHS, Format, Matrix, Part, Vector

FP8_BLOCK = (128, 128)
NVFP4_GROUP = 16
KEPT_IN_FULL = ("router",)
"""Parts that SGLang builds without quantisation whatever the config says."""

_ALGORITHMS: dict[str, Format] = {
    "FP8": "fp8",
    "FP8_PB_WO": "fp8-block",
    "FP8_BLOCK_SCALES": "fp8-block",
    "NVFP4": "nvfp4",
    "W4A16_NVFP4": "nvfp4",
}


@dataclass(frozen=True)
class Storage:
    """What holds for all matrices (``default``), and for some of them.

    Attributes:
        default: format of a matrix that no rule names.
        ignored: patterns of matrices that stay in the model's own dtype.
        rules: name to format, where the checkpoint lists its matrices one by one (ModelOpt's mixed form).
        block: rows and columns that share a scale in ``fp8-block``.
        width: bytes of an element that is not quantised.
    """

    default: Format
    ignored: tuple[str, ...] = ()
    rules: tuple[tuple[str, Format], ...] = ()
    block: tuple[int, int] = FP8_BLOCK
    width: int = 2

    def format_of(self, matrix: Matrix) -> Format:
        """The format in which ``matrix`` is kept."""
        plain: Format = "fp32" if self.width == 4 else "bf16"
        if matrix.part in KEPT_IN_FULL or any(_matches(pattern, matrix.name) for pattern in self.ignored):
            return plain
        named = next((kept for pattern, kept in self.rules if _matches(pattern, matrix.name)), None)
        return named or self.default

    def part(self, matrix: Matrix) -> Part:
        """``matrix`` as a part, with its scales."""
        kept = self.format_of(matrix)
        elements = matrix.rows * matrix.columns
        size = {"fp32": 4 * elements, "bf16": 2 * elements, "fp16": 2 * elements}.get(kept, 0)
        if kept == "fp8":
            size = elements + 4 * matrix.rows
        elif kept == "fp8-block":
            blocks = math.ceil(matrix.rows / self.block[0]) * math.ceil(matrix.columns / self.block[1])
            size = elements + 4 * blocks
        elif kept == "nvfp4":
            size = elements // 2 + elements // NVFP4_GROUP + 8
        return Part(matrix.part, kept, elements * matrix.count, size * matrix.count)

    def plain(self, vector: Vector) -> Part:
        """``vector`` as a part in the model's own dtype, or in the one it must have."""
        kept: Format = "fp32" if self.width == 4 and vector.format == "bf16" else vector.format
        return Part(vector.part, kept, vector.elements, vector.elements * WIDTHS[kept])

    def parts(self, matrices: Iterable[Matrix], vectors: Iterable[Vector]) -> list[Part]:
        """All of them, one part for each entry."""
        return [self.part(matrix) for matrix in matrices] + [self.plain(vector) for vector in vectors]


def _matches(pattern: str, name: str) -> bool:
    """Whether a checkpoint's pattern names ``name``; checkpoints differ in the prefix they write."""
    if pattern.startswith("re:"):
        return re.search(pattern[3:], name) is not None
    bare = pattern.replace("model.language_model.", "model.").removesuffix(".weight")
    if any(char in bare for char in "*?["):
        return fnmatch(name, bare)
    return f".{bare}." in f".{name}."


def unquantised(dtype: str = "bfloat16") -> Storage:
    """Everything in ``dtype``."""
    return Storage("fp32" if WIDTHS.get(dtype, 2) == 4 else "bf16", width=WIDTHS.get(dtype, 2))


def read_storage(config: dict[str, Any], where: Path, dtype: str = "bfloat16") -> Storage:
    """The storage that ``quantization_config`` describes.

    Known are FP8 (whole or in blocks), compressed-tensors FP8, ModelOpt FP8, NVFP4 and its mixed form.

    Raises:
        CheckpointError: another quantisation.
    """
    plain = unquantised(dtype)
    found = config.get("quantization_config")
    if found is None:
        return plain
    if not isinstance(found, dict):
        raise CheckpointError(
            f"quantization_config in {where} is not an object; expected one with quant_method."
        )
    method = str(found.get("quant_method", "modelopt"))
    ignored = tuple(
        str(name)
        for key in ("modules_to_not_convert", "ignored_layers", "ignore", "exclude_modules")
        for name in found.get(key) or ()
    )
    if method == "fp8":
        block = found.get("weight_block_size")
        size = (int(block[0]), int(block[1])) if block else FP8_BLOCK
        return Storage("fp8-block" if block else "fp8", ignored, block=size, width=plain.width)
    if method == "compressed-tensors":
        groups = (found.get("config_groups") or {}).values()
        weights = next((group.get("weights") or {} for group in groups), {})
        if weights.get("num_bits") == 8 and weights.get("type") == "float":
            block = weights.get("block_structure")
            size = (int(block[0]), int(block[1])) if block else FP8_BLOCK
            return Storage("fp8-block" if block else "fp8", ignored, block=size, width=plain.width)
    if method.startswith("modelopt"):
        rules = tuple(
            (str(name), _ALGORITHMS[str(layer.get("quant_algo"))])
            for name, layer in (found.get("quantized_layers") or {}).items()
            if str(layer.get("quant_algo")) in _ALGORITHMS
        )
        algorithm = str(found.get("quant_algo", "MIXED_PRECISION" if rules else ""))
        if algorithm in _ALGORITHMS:
            return Storage(_ALGORITHMS[algorithm], ignored, width=plain.width)
        if rules:
            return Storage(plain.default, ignored, rules, width=plain.width)
    raise CheckpointError(
        f"quantization_config in {where} has quant_method {method!r}, which cannot be sized; known are fp8, "
        "compressed-tensors FP8 and modelopt with FP8, NVFP4 or quantized_layers."
    )
