"""The sizes that ``config.json`` gives for the language model, for both families."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from penny_models.checkpoint.errors import CheckpointError
from penny_models.checkpoint.text_config import positive_int

Family = Literal["qwen3_5", "qwen4_exp"]
FULL_ATTENTION = ("full_attention", "attention", "qwen_sparse_attention", "indexed_attention")
ARCHITECTURES: dict[str, Family] = {
    "Qwen3_5ForConditionalGeneration": "qwen3_5",
    "Qwen3_5ForCausalLM": "qwen3_5",
    "Qwen4ExpForConditionalGeneration": "qwen4_exp",
}


@dataclass(frozen=True)
class Experts:
    """A mixture of experts: routed experts, and one shared expert that always runs."""

    experts: int
    per_token: int
    inner: int
    shared_inner: int


@dataclass(frozen=True)
class Indexer:
    """The QSA indexer: ``heads`` queries and one key of ``head_dim``; one stored key per ``ratio`` tokens."""

    heads: int
    head_dim: int
    ratio: int
    budget: int


@dataclass(frozen=True)
class Ngram:
    """Per-layer n-gram embedding (PLE) and its short convolution."""

    layers: tuple[int, ...]
    embed_dim: int
    ngram: int
    heads_per_ngram: int
    kernel: int
    vocabulary: int
    divisible_by: int
    table_dtype: str


@dataclass(frozen=True)
class TextShape:
    """Sizes of a language model, named as ``text_config`` names them where it does.

    Attributes:
        full_layers: indices of the full-attention layers; the others are Gated DeltaNet (GDN).
        inner: inner size of the dense MLP, 0 with experts.
        streams: residual streams (``hc_count``), 1 without HyperConnections; ``stream_rank`` is ``hc_lowrank``.
        mtp_layers: NEXTN layers in the checkpoint; ``mtp_counted`` says whether SGLang's pool sizing sees them.
        ssm_dtype: dtype of the recurrent state that the config asks for, None if it does not say.
    """

    family: Family
    vocab: int
    hidden: int
    layers: int
    full_layers: tuple[int, ...]
    heads: int
    kv_heads: int
    head_dim: int
    key_heads: int
    value_heads: int
    key_dim: int
    value_dim: int
    conv_kernel: int
    gated: bool
    bias: bool
    tied: bool
    inner: int
    experts: Experts | None
    streams: int
    stream_rank: int
    indexer: Indexer | None
    ngram: Ngram | None
    mtp_layers: int
    mtp_counted: bool
    positions: int
    rope: dict[str, Any]
    ssm_dtype: str | None

    @property
    def gdn_layers(self) -> int:
        """Number of layers with a recurrent state."""
        return self.layers - len(self.full_layers)

    @property
    def conv_channels(self) -> int:
        """Channels of the GDN convolution: two keys and the value."""
        return 2 * self.key_heads * self.key_dim + self.value_heads * self.value_dim


def _layers(text: dict[str, Any], family: Family, where: Path) -> tuple[int, tuple[int, ...]]:
    layers = positive_int(text, "num_hidden_layers", where)
    interval = positive_int(text, "full_attention_interval", where)
    types = text.get("layer_types") if family == "qwen4_exp" else None
    if types is None:
        return layers, tuple(i for i in range(layers) if (i + 1) % interval == 0)
    if not isinstance(types, list) or len(types) != layers:
        raise CheckpointError(f"layer_types in {where} does not have one entry for each of {layers} layers.")
    return layers, tuple(i for i, kind in enumerate(types) if kind in FULL_ATTENTION)


def _experts(text: dict[str, Any], where: Path) -> Experts | None:
    if text.get("num_experts") is None:
        return None
    return Experts(
        positive_int(text, "num_experts", where),
        positive_int(text, "num_experts_per_tok", where),
        positive_int(text, "moe_intermediate_size", where),
        positive_int(text, "shared_expert_intermediate_size", where),
    )


def _indexer(text: dict[str, Any], where: Path) -> Indexer | None:
    if not any(
        text.get(key) is not None for key in ("indexer_n_heads", "indexer_budget", "indexer_head_dim")
    ):
        return None
    found = Indexer(
        positive_int(text, "indexer_n_heads", where),
        positive_int(text, "indexer_head_dim", where),
        positive_int(text, "indexer_compress_ratio", where),
        positive_int(text, "indexer_budget", where),
    )
    if found.budget % found.ratio or found.budget // found.ratio not in (512, 2048):
        raise CheckpointError(
            f"indexer_budget / indexer_compress_ratio in {where} is {found.budget} / {found.ratio}; SGLang's top-k "
            "takes 512 or 2048 blocks, so correct config.json."
        )
    return found


def _ngram(text: dict[str, Any], where: Path) -> Ngram | None:
    ids = text.get("ple_layer_ids") or []
    if not ids:
        return None
    return Ngram(
        layers=tuple(sorted({int(i) - 1 for i in ids})),
        embed_dim=int(text.get("ple_embed_dim") or text["hidden_size"]),
        ngram=int(text.get("ngram_size", 3)),
        heads_per_ngram=int(text.get("heads_per_ngram", 8)),
        kernel=int(text.get("ple_conv_kernel_size", 4)),
        vocabulary=int(text.get("ngram_vocab_size_base", 20_000_000)),
        divisible_by=int(text.get("make_ngram_vocab_size_divisible_by", 128)),
        table_dtype=str(text.get("ple_embedding_dtype") or "bfloat16"),
    )


def family_of(config: dict[str, Any], where: Path) -> Family:
    """The family that ``architectures`` names; ``CheckpointError`` for another."""
    names = config.get("architectures")
    if isinstance(names, list) and len(names) == 1 and names[0] in ARCHITECTURES:
        return ARCHITECTURES[names[0]]
    raise CheckpointError(
        f"architectures in {where} is {names!r}; {', '.join(ARCHITECTURES)} are known, so choose a checkpoint of one "
        "of them."
    )


def read_text(config: dict[str, Any], where: Path) -> TextShape:
    """Read the language model's sizes from a parsed ``config.json``; ``where`` names it in errors.

    Raises:
        CheckpointError: another architecture, or a field that is missing or not a positive whole number.
            ``full_attention_interval`` must be written, since SGLang has no default for it.
    """
    family = family_of(config, where)
    text = config.get("text_config", config)
    if not isinstance(text, dict):
        raise CheckpointError(f"text_config in {where} is not an object.")
    layers, full = _layers(text, family, where)
    experts = _experts(text, where)
    mtp = text.get("mtp_num_hidden_layers", text.get("num_nextn_predict_layers")) or 0
    # Releases of transformers before 5 wrote `rope_scaling` beside `rope_theta`.
    rope = text.get("rope_parameters") or text.get("rope_scaling") or {}
    return TextShape(
        family=family,
        vocab=positive_int(text, "vocab_size", where),
        hidden=positive_int(text, "hidden_size", where),
        layers=layers,
        full_layers=full,
        heads=positive_int(text, "num_attention_heads", where),
        kv_heads=positive_int(text, "num_key_value_heads", where),
        head_dim=positive_int(text, "head_dim", where),
        key_heads=positive_int(text, "linear_num_key_heads", where),
        value_heads=positive_int(text, "linear_num_value_heads", where),
        key_dim=positive_int(text, "linear_key_head_dim", where),
        value_dim=positive_int(text, "linear_value_head_dim", where),
        conv_kernel=positive_int(text, "linear_conv_kernel_dim", where),
        gated=bool(text.get("attn_output_gate", True)),
        bias=bool(text.get("attention_bias", False)),
        tied=bool(config.get("tie_word_embeddings", text.get("tie_word_embeddings", False))),
        inner=0 if experts else positive_int(text, "intermediate_size", where),
        experts=experts,
        streams=int(text.get("hc_count", 4)) if family == "qwen4_exp" else 1,
        stream_rank=int(text.get("hc_lowrank", 320)) if family == "qwen4_exp" else 0,
        indexer=_indexer(text, where) if family == "qwen4_exp" else None,
        ngram=_ngram(text, where) if family == "qwen4_exp" else None,
        mtp_layers=int(mtp),
        mtp_counted=text.get("num_nextn_predict_layers") is not None,
        positions=positive_int(text, "max_position_embeddings", where),
        rope=dict(rope) if isinstance(rope, dict) else {},
        ssm_dtype=text.get("mamba_ssm_dtype"),
    )
