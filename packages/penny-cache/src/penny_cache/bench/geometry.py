"""The parts of real pages, in bytes.

A page is 64 tokens. Sources: 13 layers of keys and values (12 of the target, 1 of its draft) of 1,024 bytes a token at
FP8 and compressed index keys of 64 bytes a token and layer for Flash-Next; 64 layers of which 16 are attention with
32,768 bytes a token at FP8 and a draft of 5 layers, 8 heads of 128 at FP8 for the 27B (the model pages of the
reference). The states are those of one recurrent slot in bfloat16: heads x value dim x key dim x layers.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

PAGE_TOKENS = 64
MOST_PAGES = 8_192


@dataclass(frozen=True)
class Geometry:
    """What a boundary adds.

    Attributes:
        name: of the model.
        page: bytes of the parts that every page has.
        snapshot: bytes of the parts that the end of a prefix has besides.
    """

    name: str
    page: Mapping[str, int]
    snapshot: Mapping[str, int]

    @property
    def page_bytes(self) -> int:
        """Of a page, without a snapshot."""
        return sum(self.page.values())

    @property
    def snapshot_bytes(self) -> int:
        """Of a snapshot."""
        return sum(self.snapshot.values())


FLASH_NEXT = Geometry(
    "flash-next",
    {"kv": PAGE_TOKENS * 13 * 1024, "qsa": PAGE_TOKENS * 13 * 64},
    {
        "gdn_temporal": 48 * 128 * 128 * 36 * 2,
        "gdn_conv": 10_240 * 3 * 36 * 2,
        "ple_conv": 10_240 * 9 * 2,
        "ple_context": 2 * 8,
    },
)
QWEN_27B = Geometry(
    "27b",
    {"kv": PAGE_TOKENS * 32_768, "draft_kv": PAGE_TOKENS * 5 * 2 * 8 * 128},
    {"gdn_temporal": 48 * 128 * 128 * 48 * 4, "gdn_conv": 10_240 * 3 * 48 * 2},
)
GEOMETRIES = {geometry.name: geometry for geometry in (FLASH_NEXT, QWEN_27B)}


STEP = 4_099
"""Bytes between the starts of two pages' payloads; a prime, so that no two have a block in common."""


@functools.cache
def _random(size: int) -> bytes:
    return np.random.default_rng(size).bytes(size)


def filled(size: int, page: int) -> memoryview:
    """So many bytes, others for each page, that no drive or file system can make less of."""
    return memoryview(_random(MOST_PAGES * STEP + size))[page * STEP : page * STEP + size]
