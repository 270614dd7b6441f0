"""Prints what the rotary embeddings of a launch are in stock SGLang, against transformers and the formula.

Run as ``python long_positions.py FAMILY TARGET DRAFT OVERRIDES``: a family of `FAMILIES`, config folders, and the
JSON that the launch gives as ``--json-model-override-args``. The environment is the launch's, so the seams are its.
"""

from __future__ import annotations

import importlib
import json
import math
import sys
from pathlib import Path

import torch
from sglang.srt.layers.rotary_embedding import get_rope
from sglang.srt.plugins import load_plugins
from sglang.srt.utils.hf_transformers_utils import get_config, get_rope_config

FIRST, END = 262_143, 524_288
FAMILIES = {"qwen3_5": "Qwen3_5", "qwen4_exp": "Qwen4Exp"}


def formula(dim: int, theta: float, factor: float, original: int) -> torch.Tensor:
    """Cosines, then sines, of YaRN at FIRST to END in float64, from the paper (arXiv 2309.00071, 3.4)."""

    def dimension(turns: float) -> float:
        return dim * math.log(original / (turns * 2 * math.pi)) / (2 * math.log(theta))

    low, high = math.floor(dimension(32)), math.ceil(dimension(1))
    pair = torch.arange(dim // 2, dtype=torch.float64)
    frequency = theta ** (-2 * pair / dim)
    interpolated = ((pair - low) / (high - low)).clamp(0, 1)
    frequency = frequency * (1 - interpolated) + frequency / factor * interpolated
    angles = torch.arange(FIRST, END, dtype=torch.float64)[:, None] * frequency
    return torch.cat((angles.cos(), angles.sin()), dim=-1) * (0.1 * math.log(factor) + 1)


def stock(config: object, dtype: torch.dtype) -> torch.nn.Module:
    """The rotary embedding as SGLang's attention layers make it from a text config."""
    theta, scaling = get_rope_config(config)
    return get_rope(
        config.head_dim,
        rotary_dim=config.head_dim,
        max_position=config.max_position_embeddings,
        base=theta,
        rope_scaling=scaling,
        partial_rotary_factor=getattr(config, "partial_rotary_factor", 1.0),
        is_neox_style=True,
        dtype=dtype,
    )


def theirs(module: torch.nn.Module) -> torch.Tensor:
    """The same table by a rotary module of transformers, in float32."""
    positions = torch.arange(FIRST, END)[None]
    cos, sin = module(torch.zeros(1), positions)
    half = cos.shape[-1] // 2
    return torch.cat((cos[0, :, :half], sin[0, :, :half]), dim=-1)


def compared(
    rotary: dict[torch.dtype, torch.nn.Module], module: torch.nn.Module, exact: torch.Tensor
) -> dict:
    """How stock's tables compare with transformers' ``module`` and the ``exact`` one."""
    full = rotary[torch.float32].cos_sin_cache
    other = theirs(module)
    return {
        "rows": full.shape[0],
        "equal": torch.equal(full[FIRST:END], other),
        "equal_bfloat16": torch.equal(rotary[torch.bfloat16].cos_sin_cache[FIRST:END], other.bfloat16()),
        "from_formula": float((full[FIRST:END].double() - exact).abs().max()),
    }


def three_axes(rotary: torch.nn.Module, module: torch.nn.Module, head_dim: int) -> float:
    """The largest difference of a query rotated by stock and by transformers, with text, height and width apart."""
    torch.manual_seed(5)
    positions = torch.stack([torch.randint(FIRST, END, (64,)) for _ in range(3)])
    query = torch.randn(64, head_dim)
    ours, _ = rotary.forward_native(positions, query.clone(), torch.randn(64, head_dim))
    cos, sin = module(torch.zeros(1), positions[:, None])
    turned, kept = query[:, : cos.shape[-1]], query[:, cos.shape[-1] :]
    left, right = turned.chunk(2, dim=-1)
    expected = torch.cat((turned * cos[0] + torch.cat((-right, left), dim=-1) * sin[0], kept), dim=-1)
    return float((ours - expected).abs().max())


def main(family: str, target: str, draft: str, overrides: str) -> None:
    """See the module."""
    load_plugins()
    changes = json.loads(overrides)
    text = get_config(target, trust_remote_code=False, model_override_args=changes).text_config
    name = FAMILIES[family]
    configs = importlib.import_module(f"transformers.models.{family}.configuration_{family}")
    models = importlib.import_module(f"transformers.models.{family}.modeling_{family}")
    raw = json.loads((Path(target) / "config.json").read_text())["text_config"] | changes["text_config"]
    raw.pop("model_type")
    module = getattr(models, f"{name}TextRotaryEmbedding")(getattr(configs, f"{name}TextConfig")(**raw))
    rope = changes["text_config"]["rope_parameters"]
    numbers = (rope["rope_theta"], rope["factor"], rope["original_max_position_embeddings"])
    both = {dtype: stock(text, dtype) for dtype in (torch.float32, torch.bfloat16)}
    found = {"target": compared(both, module, formula(int(256 * 0.25), *numbers))}
    found["target"]["three_axes"] = three_axes(both[torch.float32], module, 256)
    if draft:
        from transformers.models.qwen3.configuration_qwen3 import Qwen3Config
        from transformers.models.qwen3.modeling_qwen3 import Qwen3RotaryEmbedding

        own = get_config(draft, trust_remote_code=False, model_override_args=changes)
        wanted = json.loads((Path(draft) / "expected.json").read_text())
        module = Qwen3RotaryEmbedding(Qwen3Config(**wanted))
        rope = wanted["rope_parameters"]
        numbers = (rope["rope_theta"], rope["factor"], rope["original_max_position_embeddings"])
        found["draft_text_config"] = getattr(own, "text_config", None)
        found["draft_rope"] = own.rope_parameters
        both = {dtype: stock(own, dtype) for dtype in (torch.float32, torch.bfloat16)}
        found["draft"] = compared(both, module, formula(128, *numbers))
    print(json.dumps(found))


if __name__ == "__main__":
    main(*sys.argv[1:])
