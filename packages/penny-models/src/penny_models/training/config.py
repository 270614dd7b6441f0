"""The shape of ``tiny-27b`` and the JSON files that describe it."""

from typing import Any

from penny_models.training.special_tokens import SPECIAL_TOKENS

VOCAB_SIZE = 4096
HIDDEN_SIZE = 128
NUM_LAYERS = 8
FULL_ATTENTION_INTERVAL = 4
MAX_POSITIONS = 8192
SEQUENCE_LENGTH = 2048
"""Tokens in one training sequence: positions up to here are trained."""

Json = dict[str, Any]


def token_id(token: str) -> int:
    """Return the id of a special token: they are the last ids of the vocabulary, in the family's order."""
    return VOCAB_SIZE - len(SPECIAL_TOKENS) + SPECIAL_TOKENS.index(token)


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


def vision_config() -> Json:
    """Return a vision tower with no blocks: the architecture class needs one, text use never runs it."""
    return {
        "model_type": "qwen3_5_vision",
        "depth": 0,
        "hidden_size": 16,
        "intermediate_size": 16,
        "num_heads": 1,
        "in_channels": 3,
        "patch_size": 16,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "out_hidden_size": HIDDEN_SIZE,
        "num_position_embeddings": 16,
        "deepstack_visual_indexes": [],
    }


def model_config() -> Json:
    """Return the whole ``config.json``."""
    return {
        "architectures": ["Qwen3_5ForConditionalGeneration"],
        "model_type": "qwen3_5",
        "language_model_only": True,
        "tie_word_embeddings": False,
        "dtype": "bfloat16",
        "image_token_id": token_id("<|image_pad|>"),
        "video_token_id": token_id("<|video_pad|>"),
        "vision_start_token_id": token_id("<|vision_start|>"),
        "vision_end_token_id": token_id("<|vision_end|>"),
        "text_config": text_config(),
        "vision_config": vision_config(),
    }


def generation_config() -> Json:
    """Return ``generation_config.json``: an answer ends at either end marker."""
    return {
        "bos_token_id": token_id("<|endoftext|>"),
        "eos_token_id": [token_id("<|im_end|>"), token_id("<|endoftext|>")],
        "pad_token_id": token_id("<|endoftext|>"),
        "do_sample": True,
        "temperature": 0.6,
        "top_k": 20,
        "top_p": 0.95,
    }


def image_processor_config() -> Json:
    """Return ``preprocessor_config.json``; SGLang reads it even when it loads the language model only."""
    vision = vision_config()
    return {
        "image_processor_type": "Qwen2VLImageProcessorFast",
        "processor_class": "Qwen3VLProcessor",
        "patch_size": vision["patch_size"],
        "temporal_patch_size": vision["temporal_patch_size"],
        "merge_size": vision["spatial_merge_size"],
        "image_mean": [0.5, 0.5, 0.5],
        "image_std": [0.5, 0.5, 0.5],
        "size": {"shortest_edge": 1024, "longest_edge": 65536},
    }


def video_processor_config() -> Json:
    """Return ``video_preprocessor_config.json``, the image processor's sibling for videos."""
    image = image_processor_config()
    del image["image_processor_type"]
    return {**image, "video_processor_type": "Qwen3VLVideoProcessor"}
