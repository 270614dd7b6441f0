"""The tensors that a Flash-Next (Qwen4Exp) checkpoint must have, by name and shape.

Written from the model's definition (transformers ``models/qwen4_exp``), not from a loader: SGLang's loader does not
notice a missing tensor. Its layers have no norms of their own: the hyper-connections normalise.
"""

from collections.abc import Collection
from dataclasses import dataclass

from penny_models.checkpoint.expected import Shapes
from penny_models.shapes.ple import ngram_tables
from penny_models.shapes.text import Experts, Ngram, TextShape


@dataclass(frozen=True)
class NextForm:
    """How a checkpoint writes what may be written in two ways.

    Attributes:
        found: the names that the checkpoint has; experts are expected one by one where it has them so.
        parts: ``split_ngram_parts``, the shards of each PLE table.
    """

    found: Collection[str]
    parts: int


def _gated_delta_net(shape: TextShape, prefix: str) -> Shapes:
    hidden, values, heads = shape.hidden, shape.value_heads * shape.value_dim, shape.value_heads
    return {
        f"{prefix}in_proj_qkv.weight": (shape.conv_channels, hidden),
        f"{prefix}in_proj_z.weight": (values, hidden),
        f"{prefix}in_proj_b.weight": (heads, hidden),
        f"{prefix}in_proj_a.weight": (heads, hidden),
        f"{prefix}conv1d.weight": (shape.conv_channels, 1, shape.conv_kernel),
        f"{prefix}A_log": (heads,),
        f"{prefix}dt_bias": (heads,),
        f"{prefix}norm.weight": (shape.value_dim,),
        f"{prefix}out_proj.weight": (hidden, values),
    }


def _attention(shape: TextShape, prefix: str) -> Shapes:
    hidden, queries = shape.hidden, shape.heads * shape.head_dim
    keys = shape.kv_heads * shape.head_dim
    rows = {"q_proj": queries * (2 if shape.gated else 1), "k_proj": keys, "v_proj": keys}
    shapes: Shapes = {f"{prefix}{name}.weight": (size, hidden) for name, size in rows.items()}
    shapes[f"{prefix}o_proj.weight"] = (hidden, queries)
    shapes[f"{prefix}q_norm.weight"] = shapes[f"{prefix}k_norm.weight"] = (shape.head_dim,)
    if shape.bias:
        shapes |= {f"{prefix}{name}.bias": (size,) for name, size in rows.items()}
        shapes[f"{prefix}o_proj.bias"] = (hidden,)
    if shape.indexer:
        width = shape.indexer.head_dim
        shapes[f"{prefix}indexer.index_qk_proj.weight"] = ((shape.indexer.heads + 1) * width, hidden)
        shapes[f"{prefix}indexer.q_layernorm.weight"] = (width,)
        shapes[f"{prefix}indexer.k_layernorm.weight"] = (width,)
    return shapes


def _mlp(prefix: str, hidden: int, inner: int) -> Shapes:
    return {
        f"{prefix}gate_proj.weight": (inner, hidden),
        f"{prefix}up_proj.weight": (inner, hidden),
        f"{prefix}down_proj.weight": (hidden, inner),
    }


def _mixture(moe: Experts, hidden: int, prefix: str, found: Collection[str]) -> Shapes:
    shapes: Shapes = {
        f"{prefix}gate.weight": (moe.experts, hidden),
        f"{prefix}shared_expert_gate.weight": (1, hidden),
        **_mlp(f"{prefix}shared_expert.", hidden, moe.shared_inner),
    }
    if f"{prefix}experts.0.gate_proj.weight" in found:
        for expert in range(moe.experts):
            shapes |= _mlp(f"{prefix}experts.{expert}.", hidden, moe.inner)
        return shapes
    shapes[f"{prefix}experts.gate_up_proj"] = (moe.experts, 2 * moe.inner, hidden)
    shapes[f"{prefix}experts.down_proj"] = (moe.experts, hidden, moe.inner)
    return shapes


def _hyper_connection(shape: TextShape, prefix: str, inject: bool = True) -> Shapes:
    wide = shape.streams * shape.hidden
    shapes: Shapes = {
        f"{prefix}hc_norm.weight": (wide,),
        f"{prefix}input_mix_weight_down.weight": (shape.stream_rank, wide),
        f"{prefix}input_mix_weight_up.weight": (wide, shape.stream_rank),
    }
    if inject:
        shapes[f"{prefix}block_inject_weight.weight"] = (shape.streams, wide)
    return shapes


def _ngram(shape: TextShape, ngram: Ngram, index: int, prefix: str, parts: int) -> Shapes:
    wide, table = shape.streams * shape.hidden, ngram_tables(ngram)[index]
    size = -(-table.rows // parts)
    width = ngram.embed_dim // table.reads
    shapes: Shapes = {
        f"{prefix}key_proj.weight": (wide, ngram.embed_dim),
        f"{prefix}value_proj.weight": (shape.hidden, ngram.embed_dim),
        f"{prefix}conv1d.weight": (wide, 1, ngram.kernel),
        **{f"{prefix}{name}.weight": (wide,) for name in ("norm_key", "norm_query", "norm_conv")},
    }
    for part in range(-(-table.rows // size)):
        rows = min(size, table.rows - part * size)
        shapes[f"{prefix}ple_embedding.ngram_embedding.shard_{part}.weight"] = (rows, width)
    if ngram.table_dtype.startswith("float8"):
        shapes[f"{prefix}ple_embedding.ngram_embedding.weight_scale"] = (1,)
    return shapes


def _layer(shape: TextShape, prefix: str, full_attention: bool, form: NextForm) -> Shapes:
    mixer = (
        _attention(shape, f"{prefix}self_attn.")
        if full_attention
        else _gated_delta_net(shape, f"{prefix}linear_attn.")
    )
    moe = (
        _mixture(shape.experts, shape.hidden, f"{prefix}mlp.", form.found)
        if shape.experts
        else _mlp(f"{prefix}mlp.", shape.hidden, shape.inner)
    )
    return {
        **mixer,
        **moe,
        **_hyper_connection(shape, f"{prefix}attn_hyper_connection."),
        **_hyper_connection(shape, f"{prefix}mlp_hyper_connection."),
    }


def next_tensors(shape: TextShape, prefix: str, form: NextForm) -> Shapes:
    """Return the language model's tensors under ``prefix`` (``model.language_model.`` or ``model.``)."""
    shapes: Shapes = {f"{prefix}embed_tokens.weight": (shape.vocab, shape.hidden)}
    if not shape.tied:
        shapes["lm_head.weight"] = (shape.vocab, shape.hidden)
    for layer in range(shape.layers):
        shapes |= _layer(shape, f"{prefix}layers.{layer}.", layer in shape.full_layers, form)
    if shape.ngram:
        for index, layer in enumerate(shape.ngram.layers):
            shapes |= _ngram(shape, shape.ngram, index, f"{prefix}layers.{layer}.ple.", form.parts)
    return shapes | _hyper_connection(shape, f"{prefix}hyper_connection_mixer.", inject=False)


def next_mtp_tensors(shape: TextShape, form: NextForm) -> Shapes:
    """Return the NEXTN (MTP) tensors; embedding and head are shared with the language model, PLE it has none."""
    if not shape.mtp_layers:
        return {}
    hidden = shape.hidden
    shapes: Shapes = {
        "mtp.fc_embedding.weight": (hidden, hidden),
        "mtp.fc_hidden.weight": (hidden, hidden),
        "mtp.pre_fc_norm_embedding.weight": (hidden,),
        "mtp.pre_fc_norm_hidden.weight": (shape.streams * hidden,),
        **_hyper_connection(shape, "mtp.hyper_connection_mixer.", inject=False),
    }
    for layer in range(shape.mtp_layers):
        shapes |= _layer(shape, f"mtp.layers.{layer}.", True, form)
    return shapes


OPTIONAL_BUFFERS = ("layer_multipliers", "ngram_heads_offsets", "ngram_heads_vocab_sizes")
"""Ends of the names of PLE's hash constants: a checkpoint may have them, a loader computes them."""
