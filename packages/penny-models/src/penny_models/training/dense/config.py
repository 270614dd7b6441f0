"""The shape of ``tiny-27b`` and the JSON files that describe it."""

from penny_models.training.processors import Json, whole_config
from penny_models.training.vocabulary import MAX_POSITIONS, VOCAB_SIZE, token_id

NAME = "tiny-27b"
HIDDEN_SIZE = 128
NUM_LAYERS = 8
FULL_ATTENTION_INTERVAL = 4
SEQUENCE_LENGTH = 2048
"""Tokens in one training sequence: positions up to here are trained."""


def layer_types() -> list[str]:
    """Return the kind of each layer: three gated-delta-net layers, then one full-attention layer."""
    return [
        "linear_attention" if (index + 1) % FULL_ATTENTION_INTERVAL else "full_attention"
        for index in range(NUM_LAYERS)
    ]


def text_config() -> Json:
    """Return the ``text_config`` of the checkpoint.

    ``full_attention_interval`` is written because SGLang reads it and transformers does not save it.
    """
    return {
        "model_type": "qwen3_5_text",
        "vocab_size": VOCAB_SIZE,
        "hidden_size": HIDDEN_SIZE,
        "intermediate_size": 384,
        "num_hidden_layers": NUM_LAYERS,
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 128,
        "attn_output_gate": True,
        "attention_bias": False,
        "full_attention_interval": FULL_ATTENTION_INTERVAL,
        "layer_types": layer_types(),
        "linear_num_key_heads": 1,
        "linear_num_value_heads": 2,
        "linear_key_head_dim": 128,
        "linear_value_head_dim": 128,
        "linear_conv_kernel_dim": 4,
        "hidden_act": "silu",
        "rms_norm_eps": 1e-6,
        "initializer_range": 0.02,
        "max_position_embeddings": MAX_POSITIONS,
        "partial_rotary_factor": 0.25,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10_000_000,
            "partial_rotary_factor": 0.25,
            "mrope_section": [6, 5, 5],
            "mrope_interleaved": True,
        },
        "mtp_num_hidden_layers": 1,
        "num_nextn_predict_layers": 1,
        "tie_word_embeddings": False,
        "use_cache": True,
        "dtype": "bfloat16",
        "bos_token_id": token_id("<|endoftext|>"),
        "eos_token_id": token_id("<|endoftext|>"),
    }


def model_config() -> Json:
    """Return the whole ``config.json``."""
    return whole_config("Qwen3_5ForConditionalGeneration", "qwen3_5", text_config())
