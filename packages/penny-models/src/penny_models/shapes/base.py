"""Parts of a model with their size, and the widths of the number formats in which they are kept."""

from dataclasses import dataclass
from typing import Literal

Format = Literal["bf16", "fp16", "fp32", "fp8", "fp8-block", "nvfp4", "int64"]

WIDTHS: dict[str, int] = {
    "float32": 4,
    "fp32": 4,
    "bfloat16": 2,
    "bf16": 2,
    "float16": 2,
    "half": 2,
    "fp16": 2,
    "fp8_e4m3": 1,
    "fp8_e5m2": 1,
    "float8_e4m3fn": 1,
    "int64": 8,
}
"""Bytes of one element, by the names that config.json and SGLang's arguments use."""


@dataclass(frozen=True)
class Part:
    """One part of a model, all its layers together.

    Attributes:
        name: what it is, such as ``gdn`` or ``experts``.
        format: how its numbers are kept.
        elements: numbers in it, scales not counted.
        bytes: memory it takes, scales counted.
    """

    name: str
    format: Format
    elements: int
    bytes: int


@dataclass(frozen=True)
class Matrix:
    """A weight that may be quantised, as often as the model has it.

    Attributes:
        part: the `Part` that it belongs to.
        name: its name in the checkpoint without ``.weight``, with the layer's number.
        rows, columns: its shape ``[out, in]``.
        count: how many there are under this name (a layer's experts share one entry).
    """

    part: str
    name: str
    rows: int
    columns: int
    count: int = 1


@dataclass(frozen=True)
class Vector:
    """Weights that are never quantised: norms, convolutions, gates kept in full, tables."""

    part: str
    elements: int
    format: Format = "bf16"


def gathered(parts: list[Part]) -> tuple[Part, ...]:
    """Adds up parts of one name and format, the largest first."""
    sums: dict[tuple[str, Format], tuple[int, int]] = {}
    for part in parts:
        elements, size = sums.get((part.name, part.format), (0, 0))
        sums[part.name, part.format] = (elements + part.elements, size + part.bytes)
    found = [Part(name, kept, elements, size) for (name, kept), (elements, size) in sums.items() if elements]
    return tuple(sorted(found, key=lambda part: -part.bytes))
