"""The shape of ``tiny-next`` and its ``config.json``."""

from penny_models.training.processors import Json, whole_config
from penny_models.training.vocabulary import MAX_POSITIONS, VOCAB_SIZE, token_id

NAME = "tiny-next"
HIDDEN_SIZE = 128
NUM_LAYERS = 6
FULL_ATTENTION_INTERVAL = 3
SEQUENCE_LENGTH = 2048
"""Tokens in one training sequence: positions up to here are trained."""
INDEXED_LENGTH = 4096
"""Tokens in one sequence of the indexer's training: beyond the budget, so that selection is sparse."""


def layer_types() -> list[str]:
    """Return the kind of each layer: two gated-delta-net layers, then one QSA layer."""
    return [
        "linear_attention" if (index + 1) % FULL_ATTENTION_INTERVAL else "full_attention"
        for index in range(NUM_LAYERS)
    ]


def text_config() -> Json:
    """Return the ``text_config`` of the checkpoint.

    The indexer has the smallest budget that SGLang accepts, 512 blocks of 4 tokens. ``eos_token_id`` is where
    PLE's n-grams start anew. ``full_attention_interval`` is written because SGLang reads it and transformers
    does not save it.
    """
    end = token_id("<|endoftext|>")
    return {
        "model_type": "qwen4_exp_text",
        "vocab_size": VOCAB_SIZE,
        "hidden_size": HIDDEN_SIZE,
        "num_hidden_layers": NUM_LAYERS,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
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
        "output_gate_type": "sigmoid",
        "indexer_n_heads": 4,
        "indexer_kv_heads": 1,
        "indexer_head_dim": 64,
        "indexer_budget": 2048,
        "indexer_compress_ratio": 4,
        "num_experts": 8,
        "num_experts_per_tok": 2,
        "norm_topk_prob": True,
        "moe_intermediate_size": 64,
        "shared_expert_intermediate_size": 64,
        "hc_count": 4,
        "hc_lowrank": 16,
        "ple_layer_ids": [2],
        "ple_embed_dim": 128,
        "ple_conv_kernel_size": 4,
        "ngram_size": 3,
        "heads_per_ngram": 4,
        "ngram_vocab_size_base": 2000,
        "make_ngram_vocab_size_divisible_by": 128,
        "split_ngram_parts": 4,
        "seed": 1234,
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
        "bos_token_id": end,
        "eos_token_id": end,
    }


def model_config() -> Json:
    """Return the whole ``config.json``."""
    return whole_config("Qwen4ExpForConditionalGeneration", "qwen4_exp", text_config())
