"""The shape of the draft and its ``config.json``, in the fields that SGLang's ``parse_dflash_draft_config`` reads."""

from dataclasses import dataclass

from penny_models.training.processors import Json
from penny_models.training.vocabulary import token_id

NAME = "tiny-27b-dflash2"
BLOCK_SIZE = 8
"""Rows of a block: the verified anchor and seven proposals."""
SLIDING_WINDOW = 256
"""Tokens that a row of a sliding layer sees, itself included."""
LAYER_TYPES = ("sliding_attention",) * 4
"""As the published draft of the 27B: a full layer would also cost it SGLang's ``trtllm_mha`` draft backend."""
TARGET_LAYER_IDS = (1, 3, 5, 6)
"""Features are the hidden states after these target layers. The last layer cannot be one: SGLang captures a
hidden state when the next layer reads it."""
MASK_TOKEN = "<|fim_pad|>"
"""Its embedding stands for a token not yet proposed. No text of the corpus or of a chat template holds it."""


@dataclass(frozen=True)
class DraftShape:
    """The numbers of a draft's ``config.json`` that its mathematics needs."""

    hidden_size: int
    intermediate_size: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab_size: int
    eps: float
    rope_theta: float
    layer_types: tuple[str, ...]
    sliding_window: int
    block_size: int
    target_layer_ids: tuple[int, ...]
    mask_token_id: int
    conv_kernel_size: int
    conv_group_size: int
    selector_rank: int
    selector_top_k: int
    output_multiplier: float
    softcap: float | None

    @classmethod
    def read(cls, config: Json) -> "DraftShape":
        """Take the numbers from a flat ``config.json``."""
        flash = config["dflash_config"]
        return cls(
            hidden_size=config["hidden_size"],
            intermediate_size=config["intermediate_size"],
            heads=config["num_attention_heads"],
            kv_heads=config["num_key_value_heads"],
            head_dim=config["head_dim"],
            vocab_size=config["vocab_size"],
            eps=config["rms_norm_eps"],
            rope_theta=config["rope_parameters"]["rope_theta"],
            layer_types=tuple(config["layer_types"]),
            sliding_window=config["sliding_window"],
            block_size=flash["block_size"],
            target_layer_ids=tuple(flash["target_layer_ids"]),
            mask_token_id=flash["mask_token_id"],
            conv_kernel_size=flash["conv_kernel_size"],
            conv_group_size=flash["conv_group_size"],
            selector_rank=flash["selector_rank"],
            selector_top_k=flash["selector_top_k"],
            output_multiplier=flash.get("output_multiplier", 1.0),
            softcap=flash.get("final_logit_softcapping") or None,
        )


def draft_config(target: Json) -> Json:
    """Return the draft's whole ``config.json`` for the target with this ``config.json``.

    Embedding, head and hidden size are the target's. There is no bias and the head width is 128: with that
    SGLang writes the draft's context keys and values by its fused kernel.
    """
    text = target["text_config"]
    return {
        "architectures": ["DFlash2DraftModel"],
        "model_type": "qwen3",
        "hidden_size": text["hidden_size"],
        "intermediate_size": 384,
        "num_hidden_layers": len(LAYER_TYPES),
        "num_attention_heads": 4,
        "num_key_value_heads": 1,
        "head_dim": 128,
        "vocab_size": text["vocab_size"],
        "max_position_embeddings": text["max_position_embeddings"],
        "rms_norm_eps": text["rms_norm_eps"],
        "hidden_act": "silu",
        "attention_bias": False,
        "tie_word_embeddings": False,
        "dtype": "bfloat16",
        "rope_parameters": {"rope_type": "default", "rope_theta": 10_000_000},
        "use_sliding_window": True,
        "max_window_layers": 0,
        "sliding_window": SLIDING_WINDOW,
        "layer_types": list(LAYER_TYPES),
        "bos_token_id": text["bos_token_id"],
        "eos_token_id": text["eos_token_id"],
        "dflash_config": {
            "block_size": BLOCK_SIZE,
            "num_target_layers": text["num_hidden_layers"],
            "target_layer_ids": list(TARGET_LAYER_IDS),
            "mask_token": MASK_TOKEN,
            "mask_token_id": token_id(MASK_TOKEN),
            "conv_kernel_size": 2,
            "conv_group_size": 16,
            "selector_rank": 64,
            "selector_top_k": 8,
        },
    }
