"""Pools that others have published for one RTX PRO 6000, and what the planner says of each.

Three of them fix the three numbers that shapes cannot give; the others are predictions. The builds are the reference's
(a fork of SGLang 0.5.19) and not stock 0.5.23, whose sizing formulas they share as far as the points show.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from penny_models.shapes import known_config, merged
from penny_server.plan.constants import GIB
from penny_server.plan.demand import demand
from penny_server.plan.ledger import gpu_lines
from penny_server.plan.machines import GPUS
from penny_server.plan.plan import Source, shapes
from penny_server.plan.settings import PlanSettings
from penny_server.plan.sizing import size_pool

NVFP4_EXPERTS: dict[str, Any] = {
    "quantization_config": {
        "quant_method": "modelopt",
        "quant_algo": "MIXED_PRECISION",
        "exclude_modules": [],
        "quantized_layers": {
            "*.mlp.experts*": {"quant_algo": "NVFP4"},
            "mtp.layers.0.mlp.experts": {"quant_algo": "NVFP4"},
        },
    }
}
"""Experts of the trunk and of the NEXTN layer in NVFP4, as the reference serves them."""
CHARGE_30 = int(1.0557 * GIB)
"""Fitted to the final pool of 3.0: what that build charges for verification, which its documents do not state."""

FLASH_NEXT = PlanSettings(
    kv_dtype="fp8_e4m3",
    ssm_dtype="bfloat16",
    context=524_288,
    page=64,
    fraction=0.981,
    requests=4,
    slots=24,
    strategy="extra_buffer",
    chunk=4096,
    spec="nextn",
    draft_tokens=4,
    recover_ssm=True,
)
DENSE = PlanSettings(
    kv_dtype="fp8_e4m3",
    ssm_dtype="float32",
    context=524_288,
    page=64,
    fraction=0.92,
    requests=4,
    slots=24,
    strategy="extra_buffer_lazy",
    chunk=2048,
    spec="dflash",
    draft_tokens=8,
)
SIX = replace(FLASH_NEXT, requests=6, slots=36, online_fp8=True)


@dataclass(frozen=True)
class Point:
    """One published pool; ``use`` says whether a constant was fitted to it, ``unstated`` what its source omits."""

    tokens: int
    model: Literal["flash-next-nvfp4", "qwen38-27b-fp8"]
    settings: PlanSettings
    use: Literal["fit", "predict", "unseen"]
    source: str
    unstated: str = ""


MEMORY_PAGE = "the reference's MEMORY-AND-PERSISTENCE.md"
POINTS = (
    Point(
        745_600,
        "flash-next-nvfp4",
        replace(FLASH_NEXT, fraction=0.97, recover_ssm=False),
        "predict",
        f"{MEMORY_PAGE}: before RecoverSSM, 24 slots, fraction 0.97",
        "images' share of the memory and the size of the draft when the pool was sized",
    ),
    Point(824_384, "flash-next-nvfp4", FLASH_NEXT, "fit", f"{MEMORY_PAGE}: RecoverSSM, fraction 0.981"),
    Point(
        938_496,
        "flash-next-nvfp4",
        replace(SIX, draft_tokens=8),
        "predict",
        "release-3.0.json: the adaptive build before attention savings",
        "memory fraction of that stage (0.981 taken, as later) and the width charged for verification (8 taken)",
    ),
    Point(
        1_034_176,
        "flash-next-nvfp4",
        SIX,
        "predict",
        "docker/pennyroyal/README.md: six requests, 36 slots, online FP8, 1,048,576 asked for",
        "how much online FP8 frees when the pool is sized (taken from shapes: 3.81 GiB; 3.86 were seen after graphs)",
    ),
    Point(
        1_067_072,
        "flash-next-nvfp4",
        replace(SIX, draft_tokens=8, charge_states=False),
        "fit",
        "release-3.0.json: the final pool, six requests, 36 states, fraction 0.981",
        "what its changed accounting charges for verification; fitted, so this point confirms nothing",
    ),
    Point(1_118_784, "qwen38-27b-fp8", DENSE, "fit", f"{MEMORY_PAGE}: 24 slots, 5 states per path"),
    Point(
        1_194_496,
        "qwen38-27b-fp8",
        replace(DENSE, slots=16, fraction=0.94),
        "predict",
        f"{MEMORY_PAGE}: 16 slots, 3 states per path; the dated release's table gives memory fraction 0.94",
    ),
    Point(
        1_039_040,
        "flash-next-nvfp4",
        SIX,
        "unseen",
        "RELEASE_NOTES_3.0.md: the pool of 2.5.3 with six requests",
        "all settings but the six requests (those of the six-request recipe taken)",
    ),
    Point(
        1_114_304,
        "flash-next-nvfp4",
        replace(FLASH_NEXT, online_fp8=True),
        "unseen",
        "COMMUNITY-RESULTS.md: 2.5.0 with online FP8, 1,310,720 asked for, another person's card",
        "the checkpoint, and what else held memory on that card",
    ),
    Point(
        1_119_552,
        "qwen38-27b-fp8",
        DENSE,
        "unseen",
        "SWIFT-27B.md: Swift 27B FP8, 24 slots, four requests",
        "memory fraction (0.92 taken)",
    ),
)


@dataclass(frozen=True)
class FreePoint:
    """GPU memory that a published start had left, in GiB, with a pool of ``tokens``; none of them was fitted to."""

    tokens: int
    gib: float
    settings: PlanSettings
    source: str


_MAPPED = replace(FLASH_NEXT, token_map=True, attention=("flashinfer",))
_ONLINE = replace(_MAPPED, online_fp8=True)
FREE_POINTS = (
    FreePoint(824_384, 3.66, _MAPPED, f"{MEMORY_PAGE}: after graphs, without online FP8"),
    FreePoint(824_384, 7.52, _ONLINE, f"{MEMORY_PAGE}: after graphs, with online FP8"),
    FreePoint(999_936, 5.21, _ONLINE, f"{MEMORY_PAGE}: 1,000,000 tokens asked for"),
    FreePoint(1_048_576, 4.67, _ONLINE, "COMMUNITY-RESULTS.md: available_gpu_mem on another card"),
    FreePoint(1_114_304, 3.81, _ONLINE, "COMMUNITY-RESULTS.md: available_gpu_mem on another card"),
)


def predicted_free(point: FreePoint) -> float:
    """What the planner says is left with exactly the published pool, in GiB."""
    model, draft = shapes(_source("flash-next-nvfp4"), point.settings)
    machine = GPUS["rtx-pro-6000"]
    need = demand(model, draft, point.settings, machine)
    pool = size_pool(machine, point.settings, need, point.settings.fraction or 0.0, model.multimodal)
    lines = gpu_lines(machine, point.settings, need, replace(pool, tokens=point.tokens))
    return (machine.usable - sum(line.bytes for line in lines)) / GIB


def _source(name: str) -> Source:
    overrides = NVFP4_EXPERTS if name == "flash-next-nvfp4" else {}
    where = Path(f"{name}.json")
    return Source(merged(known_config(name), overrides), where, known_config("dflash2-27b"), where)


def predicted(point: Point) -> int:
    """The planner's pool for a published point; settings are not checked, since the builds are not stock."""
    model, draft = shapes(_source(point.model), point.settings)
    machine = GPUS["rtx-pro-6000"]
    need = demand(model, draft, point.settings, machine)
    pool = size_pool(machine, point.settings, need, point.settings.fraction or 0.0, model.multimodal)
    if point.settings.charge_states:
        return pool.tokens
    return (pool.budget - CHARGE_30) // need.cell // point.settings.page * point.settings.page
