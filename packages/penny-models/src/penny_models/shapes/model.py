"""All that one ``config.json`` says about memory."""

import json
import math
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from penny_models.checkpoint.errors import CheckpointError
from penny_models.checkpoint.vision import vision_tensors
from penny_models.shapes.base import Part, Vector, gathered
from penny_models.shapes.modules import language_weights
from penny_models.shapes.ple import NgramTable, ngram_tables
from penny_models.shapes.storage import Storage, read_storage, unquantised
from penny_models.shapes.text import TextShape, read_text

ONLINE_FP8_MIN = 128
ONLINE_FP8_PARTS = ("gdn", "attention", "shared expert", "mlp")
MXFP8_BLOCK = 32


@dataclass(frozen=True)
class ModelShape:
    """A target model. ``dtype`` is the one it is served in, for what its checkpoint does not quantise."""

    where: Path
    config: dict[str, Any]
    text: TextShape
    storage: Storage
    text_only: bool

    @cached_property
    def parts(self) -> tuple[Part, ...]:
        """The target's weights on the GPU by part and format, vision included unless it is text only."""
        found = self.storage.parts(*language_weights(self.text))
        vision = self.config.get("vision_config")
        if isinstance(vision, dict) and not self.text_only:
            tensors = vision_tensors(vision, self.where)
            elements = sum(math.prod(shape) for shape in tensors.values())
            found.append(self.storage.plain(Vector("vision", elements)))
        return gathered(found)

    @property
    def bytes(self) -> int:
        """Bytes of all `parts`."""
        return sum(part.bytes for part in self.parts)

    @cached_property
    def tables(self) -> tuple[NgramTable, ...]:
        """PLE tables, which live on the host or on a drive; none in the dense family."""
        return ngram_tables(self.text.ngram) if self.text.ngram else ()

    @property
    def multimodal(self) -> bool:
        """Whether SGLang serves images with it, and so keeps memory back for them."""
        return isinstance(self.config.get("vision_config"), dict) and not self.text_only

    def online_fp8(self) -> tuple[Part, ...]:
        """`parts` after the reference's online FP8: dense projections as MXFP8, mixing weights and head by row.

        Eligible are unquantised matrices with both sides from 128 on; routers, PLE, indexer and experts keep
        their format. Row scales are float32; an MXFP8 block of 32 has a scale of one byte.
        """
        found: list[Part] = []
        matrices, vectors = language_weights(self.text)
        for matrix in matrices:
            part = self.storage.part(matrix)
            small = min(matrix.rows, matrix.columns) < ONLINE_FP8_MIN or matrix.columns % MXFP8_BLOCK
            if part.format == "bf16" and matrix.part in ONLINE_FP8_PARTS and not small:
                part = replace(part, format="fp8", bytes=part.elements + part.elements // MXFP8_BLOCK)
            found.append(part)
        for vector in vectors:
            part = self.storage.plain(vector)
            if part.format == "bf16" and vector.part in ("hyper connections", "head"):
                part = replace(part, format="fp8", bytes=part.elements)
            found.append(part)
        return gathered([*found, *(part for part in self.parts if part.name == "vision")])


def merged(config: dict[str, Any], overrides: dict[str, Any]) -> dict[str, Any]:
    """``config`` with SGLang's ``--json-model-override-args``: objects are merged, other values replaced."""
    result = dict(config)
    for key, value in overrides.items():
        old = result.get(key)
        result[key] = merged(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return result


def read_config(path: Path) -> dict[str, Any]:
    """Parse a ``config.json`` (or the one in a folder); ``CheckpointError`` says what is wrong with it."""
    file = path / "config.json" if path.is_dir() else path
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise CheckpointError(
            f"{file} cannot be read ({error.strerror or error}); give the path of a config.json or of its folder."
        ) from error
    except (ValueError, RecursionError) as error:
        raise CheckpointError(f"{file} is not valid JSON ({error}); fetch it again.") from error
    if not isinstance(found, dict):
        raise CheckpointError(f"{file} holds a JSON {type(found).__name__}; expected an object.")
    return found


def model_shape(
    config: dict[str, Any],
    where: Path,
    *,
    dtype: str = "bfloat16",
    text_only: bool = False,
    quantised: bool = True,
) -> ModelShape:
    """The shape of a target from its parsed ``config.json``; ``where`` names it in errors.

    ``quantised`` false reads the sizes as if the checkpoint were not quantised.

    Raises:
        CheckpointError: a field is missing or wrong, or the quantisation is not known.
    """
    only = text_only or bool(config.get("language_model_only", False))
    storage = read_storage(config, where, dtype) if quantised else unquantised(dtype)
    return ModelShape(where, config, read_text(config, where), storage, only)
