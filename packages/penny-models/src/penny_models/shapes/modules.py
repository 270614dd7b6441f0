"""The weights of the language model, one entry for each module that may be quantised by itself."""

from penny_models.shapes.base import Matrix, Vector
from penny_models.shapes.text import Experts, TextShape

Weights = tuple[list[Matrix], list[Vector]]


def _gdn(shape: TextShape, prefix: str) -> Weights:
    hidden, values = shape.hidden, shape.value_heads * shape.value_dim
    heads, channels = shape.value_heads, shape.conv_channels
    matrices = [
        Matrix("gdn", f"{prefix}.in_proj_qkv", channels, hidden),
        Matrix("gdn", f"{prefix}.in_proj_z", values, hidden),
        Matrix("gdn", f"{prefix}.in_proj_b", heads, hidden),
        Matrix("gdn", f"{prefix}.in_proj_a", heads, hidden),
        Matrix("gdn", f"{prefix}.out_proj", hidden, values),
    ]
    kept = channels * shape.conv_kernel + heads + shape.value_dim
    return matrices, [Vector("gdn", kept), Vector("gdn", heads, "fp32")]


def _attention(shape: TextShape, prefix: str) -> Weights:
    hidden, queries = shape.hidden, shape.heads * shape.head_dim
    keys = shape.kv_heads * shape.head_dim
    rows = queries * (2 if shape.gated else 1)
    matrices = [
        Matrix("attention", f"{prefix}.q_proj", rows, hidden),
        Matrix("attention", f"{prefix}.k_proj", keys, hidden),
        Matrix("attention", f"{prefix}.v_proj", keys, hidden),
        Matrix("attention", f"{prefix}.o_proj", hidden, queries),
    ]
    vectors = [Vector("attention", 2 * shape.head_dim + (rows + 2 * keys + hidden if shape.bias else 0))]
    if shape.indexer is not None:
        index = shape.indexer
        matrices.append(
            Matrix("indexer", f"{prefix}.indexer.index_qk_proj", (index.heads + 1) * index.head_dim, hidden)
        )
        vectors.append(Vector("indexer", 2 * index.head_dim))
    return matrices, vectors


def _dense(shape: TextShape, prefix: str) -> list[Matrix]:
    return [
        Matrix("mlp", f"{prefix}.gate_proj", shape.inner, shape.hidden),
        Matrix("mlp", f"{prefix}.up_proj", shape.inner, shape.hidden),
        Matrix("mlp", f"{prefix}.down_proj", shape.hidden, shape.inner),
    ]


def _mixture(shape: TextShape, moe: Experts, prefix: str) -> list[Matrix]:
    hidden = shape.hidden
    return [
        Matrix("router", f"{prefix}.gate", moe.experts, hidden),
        Matrix("experts", f"{prefix}.experts.0.gate_proj", moe.inner, hidden, 2 * moe.experts),
        Matrix("experts", f"{prefix}.experts.0.down_proj", hidden, moe.inner, moe.experts),
        Matrix("shared expert", f"{prefix}.shared_expert.gate_proj", moe.shared_inner, hidden, 2),
        Matrix("shared expert", f"{prefix}.shared_expert.down_proj", hidden, moe.shared_inner),
        Matrix("router", f"{prefix}.shared_expert_gate", 1, hidden),
    ]


def _streams(shape: TextShape, inject: bool) -> Vector:
    wide, rank = shape.streams * shape.hidden, shape.stream_rank
    return Vector("hyper connections", wide + 2 * rank * wide + (shape.streams * wide if inject else 0))


def layer_weights(shape: TextShape, prefix: str, full_attention: bool) -> Weights:
    """One decoder layer under ``prefix`` (such as ``model.layers.3``), PLE not counted."""
    mixer = _attention if full_attention else _gdn
    matrices, vectors = mixer(shape, f"{prefix}.{'self_attn' if full_attention else 'linear_attn'}")
    moe = shape.experts
    matrices += _mixture(shape, moe, f"{prefix}.mlp") if moe else _dense(shape, f"{prefix}.mlp")
    vectors += [_streams(shape, True)] * 2 if shape.streams > 1 else [Vector("norms", 2 * shape.hidden)]
    return matrices, vectors


def ngram_weights(shape: TextShape) -> Weights:
    """The PLE block's projections, norms and convolution; its table is not on the GPU."""
    if shape.ngram is None:
        return [], []
    wide, embed = shape.streams * shape.hidden, shape.ngram.embed_dim
    matrices, vectors = [], []
    for layer in shape.ngram.layers:
        prefix = f"model.layers.{layer}.ple"
        matrices += [
            Matrix("ple", f"{prefix}.key_proj", wide, embed),
            Matrix("ple", f"{prefix}.value_proj", shape.hidden, embed),
        ]
        vectors.append(Vector("ple", 3 * wide + wide * shape.ngram.kernel))
    return matrices, vectors


def table(shape: TextShape, part: str) -> Vector:
    """The embedding or the head; SGLang pads the vocabulary to a multiple of 64."""
    return Vector(part, -(-shape.vocab // 64) * 64 * shape.hidden)


def language_weights(shape: TextShape) -> Weights:
    """Every weight of the language model except drafts, vision and the PLE table."""
    matrices, vectors = ngram_weights(shape)
    for layer in range(shape.layers):
        more = layer_weights(shape, f"model.layers.{layer}", layer in shape.full_layers)
        matrices += more[0]
        vectors += more[1]
    vectors.append(table(shape, "embedding"))
    if not shape.tied:
        vectors.append(table(shape, "head"))
    vectors.append(_streams(shape, False) if shape.streams > 1 else Vector("norms", shape.hidden))
    return matrices, vectors
