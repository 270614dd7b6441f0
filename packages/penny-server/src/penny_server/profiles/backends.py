"""Kernel back ends that stock guesses wrong on compute capability 12.0, where a setting leaves the choice open."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SM120 = "12.0"
NVFP4 = ("modelopt_fp4", "modelopt_mixed", "nvfp4_online")


def complete(settings: Mapping[str, Any], capability: str | None) -> dict[str, Any]:
    """The expert back end for NVFP4 on SM120: with ``auto``, stock may take TRTLLM, which only SM100 has."""
    chosen: dict[str, Any] = {}
    if capability == SM120 and settings.get("quantization") in NVFP4:
        for key in ("moe_runner_backend", "speculative_moe_runner_backend"):
            wanted = key == "moe_runner_backend" or settings.get("speculative_algorithm")
            if wanted and settings.get(key) in (None, "auto"):
                chosen[key] = "flashinfer_cutlass"
    return chosen
