"""The configuration fields that decide a dense Qwen3.5 checkpoint's tensors."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from penny_models.checkpoint.errors import CheckpointError


@dataclass(frozen=True)
class TextConfig:
    """Sizes of the language model, with the names that ``text_config`` gives them."""

    vocab_size: int
    hidden_size: int
    intermediate_size: int
    num_hidden_layers: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    full_attention_interval: int
    linear_num_key_heads: int
    linear_num_value_heads: int
    linear_key_head_dim: int
    linear_value_head_dim: int
    linear_conv_kernel_dim: int
    attn_output_gate: bool
    attention_bias: bool
    tie_word_embeddings: bool
    mtp_layers: int


_SIZES = (
    "vocab_size",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "full_attention_interval",
    "linear_num_key_heads",
    "linear_num_value_heads",
    "linear_key_head_dim",
    "linear_value_head_dim",
    "linear_conv_kernel_dim",
)


def positive_int(section: dict[str, Any], key: str, where: Path) -> int:
    """Return a field that must be a whole number above zero; ``CheckpointError`` names the field."""
    value = section.get(key)
    if not isinstance(value, int) or isinstance(value, bool) or value < 1:
        found = "is missing" if key not in section else f"is {value!r}"
        raise CheckpointError(f"{key} {found} in {where}; expected a whole number above zero.")
    return value


def parse_text_config(config: dict[str, Any], where: Path) -> TextConfig:
    """Read ``text_config`` (or the flat form of a text-only checkpoint) of ``config.json``.

    ``full_attention_interval`` must be written: SGLang has no default for it, and transformers does not
    save it.

    Raises:
        CheckpointError: a field is missing or not a positive whole number, or ``layer_types`` disagrees.
    """
    text = config.get("text_config", config)
    if not isinstance(text, dict):
        raise CheckpointError(f"text_config in {where} is not an object.")
    sizes = {key: positive_int(text, key, where) for key in _SIZES}
    pattern = [
        "linear_attention" if (index + 1) % sizes["full_attention_interval"] else "full_attention"
        for index in range(sizes["num_hidden_layers"])
    ]
    if text.get("layer_types") not in (None, pattern):
        raise CheckpointError(
            f"layer_types in {where} does not follow full_attention_interval "
            f"{sizes['full_attention_interval']} over {sizes['num_hidden_layers']} layers; SGLang reads the "
            "interval and transformers reads the list, so correct the one that is wrong."
        )
    mtp = "mtp_num_hidden_layers" if "mtp_num_hidden_layers" in text else "num_nextn_predict_layers"
    return TextConfig(
        **sizes,
        attn_output_gate=bool(text.get("attn_output_gate", True)),
        attention_bias=bool(text.get("attention_bias", False)),
        tie_word_embeddings=bool(config.get("tie_word_embeddings", text.get("tie_word_embeddings", False))),
        mtp_layers=positive_int(text, mtp, where) if text.get(mtp) else 0,
    )
