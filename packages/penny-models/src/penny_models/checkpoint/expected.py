"""The tensors that a dense Qwen3.5 checkpoint must have, by name and shape.

Written from the model's definition, not from a loader: SGLang's loader neither needs nor checks the
whole list, so a missing tensor would be served as uninitialised memory.
"""

from penny_models.checkpoint.text_config import TextConfig

Shapes = dict[str, tuple[int, ...]]
TABLE_SHARD = ".ngram_embedding.shard_"
"""Part of the name of a PLE table's shard."""


def _gated_delta_net(config: TextConfig, prefix: str) -> Shapes:
    hidden = config.hidden_size
    keys = config.linear_num_key_heads * config.linear_key_head_dim
    values = config.linear_num_value_heads * config.linear_value_head_dim
    heads = config.linear_num_value_heads
    return {
        f"{prefix}in_proj_qkv.weight": (2 * keys + values, hidden),
        f"{prefix}in_proj_z.weight": (values, hidden),
        f"{prefix}in_proj_b.weight": (heads, hidden),
        f"{prefix}in_proj_a.weight": (heads, hidden),
        f"{prefix}conv1d.weight": (2 * keys + values, 1, config.linear_conv_kernel_dim),
        f"{prefix}A_log": (heads,),
        f"{prefix}dt_bias": (heads,),
        f"{prefix}norm.weight": (config.linear_value_head_dim,),
        f"{prefix}out_proj.weight": (hidden, values),
    }


def _attention(config: TextConfig, prefix: str) -> Shapes:
    hidden = config.hidden_size
    queries = config.num_attention_heads * config.head_dim
    keys = config.num_key_value_heads * config.head_dim
    rows = {
        "q_proj": queries * (2 if config.attn_output_gate else 1),
        "k_proj": keys,
        "v_proj": keys,
    }
    shapes: Shapes = {f"{prefix}{name}.weight": (size, hidden) for name, size in rows.items()}
    shapes[f"{prefix}o_proj.weight"] = (hidden, queries)
    shapes[f"{prefix}q_norm.weight"] = shapes[f"{prefix}k_norm.weight"] = (config.head_dim,)
    if config.attention_bias:
        shapes |= {f"{prefix}{name}.bias": (size,) for name, size in rows.items()}
        shapes[f"{prefix}o_proj.bias"] = (hidden,)
    return shapes


def _layer(config: TextConfig, prefix: str, full_attention: bool) -> Shapes:
    hidden, inner = config.hidden_size, config.intermediate_size
    mixer = (
        _attention(config, f"{prefix}self_attn.")
        if full_attention
        else _gated_delta_net(config, f"{prefix}linear_attn.")
    )
    return {
        f"{prefix}input_layernorm.weight": (hidden,),
        f"{prefix}post_attention_layernorm.weight": (hidden,),
        f"{prefix}mlp.gate_proj.weight": (inner, hidden),
        f"{prefix}mlp.up_proj.weight": (inner, hidden),
        f"{prefix}mlp.down_proj.weight": (hidden, inner),
        **mixer,
    }


def language_model_tensors(config: TextConfig, prefix: str) -> Shapes:
    """Return the language model's tensors under ``prefix`` (``model.language_model.`` or ``model.``)."""
    shapes: Shapes = {
        f"{prefix}embed_tokens.weight": (config.vocab_size, config.hidden_size),
        f"{prefix}norm.weight": (config.hidden_size,),
    }
    if not config.tie_word_embeddings:
        shapes["lm_head.weight"] = (config.vocab_size, config.hidden_size)
    for index in range(config.num_hidden_layers):
        full = (index + 1) % config.full_attention_interval == 0
        shapes |= _layer(config, f"{prefix}layers.{index}.", full)
    return shapes


def mtp_tensors(config: TextConfig) -> Shapes:
    """Return the NEXTN (MTP) tensors; embedding and head are shared with the language model."""
    if not config.mtp_layers:
        return {}
    hidden = config.hidden_size
    shapes: Shapes = {
        "mtp.fc.weight": (hidden, 2 * hidden),
        "mtp.pre_fc_norm_embedding.weight": (hidden,),
        "mtp.pre_fc_norm_hidden.weight": (hidden,),
        "mtp.norm.weight": (hidden,),
    }
    for index in range(config.mtp_layers):
        shapes |= _layer(config, f"mtp.layers.{index}.", full_attention=True)
    return shapes
