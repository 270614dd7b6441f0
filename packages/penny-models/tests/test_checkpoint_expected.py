"""The tensors that the check asks for are those of transformers' own classes."""

import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import (
    Qwen3_5Config,
    Qwen3_5ForCausalLM,
    Qwen3_5ForConditionalGeneration,
    Qwen3_5TextConfig,
)

from penny_models.checkpoint.expected import language_model_tensors, mtp_tensors
from penny_models.checkpoint.text_config import parse_text_config
from penny_models.checkpoint.vision import vision_tensors

FAMILY: dict[str, Any] = {
    "vocab_size": 320,
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 8,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 24,
    "full_attention_interval": 4,
    "linear_num_key_heads": 2,
    "linear_num_value_heads": 6,
    "linear_key_head_dim": 16,
    "linear_value_head_dim": 8,
    "linear_conv_kernel_dim": 3,
    "attn_output_gate": True,
    "mtp_num_hidden_layers": 1,
}
VISION: dict[str, Any] = {
    "depth": 2,
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_heads": 2,
    "in_channels": 3,
    "patch_size": 4,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "out_hidden_size": 64,
    "num_position_embeddings": 16,
}
VARIANTS: list[dict[str, Any]] = [
    {},
    {"attention_bias": True},
    {"full_attention_interval": 2, "num_hidden_layers": 5},
    {"num_hidden_layers": 3},
    {"num_key_value_heads": 4, "linear_num_value_heads": 2},
    # The sizes of the 27B model: only names and shapes are made.
    {
        "vocab_size": 248_320,
        "hidden_size": 5120,
        "intermediate_size": 17_408,
        "num_hidden_layers": 64,
        "num_attention_heads": 24,
        "num_key_value_heads": 4,
        "head_dim": 256,
        "linear_num_key_heads": 16,
        "linear_num_value_heads": 48,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
    },
]


def layer_types(text: dict[str, Any]) -> list[str]:
    pattern = ["linear_attention"] * (text["full_attention_interval"] - 1) + ["full_attention"]
    return list(itertools.islice(itertools.cycle(pattern), text["num_hidden_layers"]))


def shapes_of(model: torch.nn.Module) -> dict[str, tuple[int, ...]]:
    return {name: tuple(tensor.shape) for name, tensor in model.state_dict().items()}


@pytest.mark.parametrize("variant", VARIANTS)
def test_expected_tensors_are_those_of_transformers(variant: dict[str, Any]) -> None:
    text = FAMILY | variant
    vision = VISION | {"out_hidden_size": text["hidden_size"]}
    config = parse_text_config({"text_config": text}, Path("config.json"))
    whole = Qwen3_5Config(text_config=text | {"layer_types": layer_types(text)}, vision_config=vision)
    with torch.device("meta"):
        truth = shapes_of(Qwen3_5ForConditionalGeneration(whole))
        truth_text = shapes_of(Qwen3_5ForCausalLM(Qwen3_5TextConfig(**text, layer_types=layer_types(text))))
    tower = vision_tensors(vision, Path("config.json"))
    assert language_model_tensors(config, "model.language_model.") | tower == truth
    assert language_model_tensors(config, "model.") == truth_text

    # An MTP layer is one of the model's full-attention layers; transformers itself leaves MTP out.
    full = layer_types(text | {"num_hidden_layers": 8}).index("full_attention")
    hidden = text["hidden_size"]
    if full < text["num_hidden_layers"]:
        prefix = f"model.layers.{full}."
        layer = {
            name.replace(prefix, "mtp.layers.0."): shape
            for name, shape in truth_text.items()
            if name.startswith(prefix)
        }
        norms = ("norm", "pre_fc_norm_embedding", "pre_fc_norm_hidden")
        around = {f"mtp.{name}.weight": (hidden,) for name in norms}
        assert mtp_tensors(config) == layer | around | {"mtp.fc.weight": (hidden, 2 * hidden)}
