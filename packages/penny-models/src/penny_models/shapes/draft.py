"""Draft models: the NEXTN layer of the target's own checkpoint, and DFlash2 with a checkpoint of its own."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from penny_models.checkpoint.errors import CheckpointError
from penny_models.checkpoint.text_config import positive_int
from penny_models.shapes.base import Matrix, Part, Vector, gathered
from penny_models.shapes.modules import layer_weights, table
from penny_models.shapes.storage import Storage, unquantised
from penny_models.shapes.text import TextShape


@dataclass(frozen=True)
class DFlashShape:
    """Sizes of a DFlash or DFlash2 draft; ``taps`` and ``rank`` are 0 without convolution and selector."""

    layers: int
    hidden: int
    inner: int
    heads: int
    kv_heads: int
    head_dim: int
    vocab: int
    targets: int
    block: int
    taps: int
    group: int
    rank: int

    @property
    def kv_per_layer(self) -> int:
        """Elements of keys and values for one token and layer."""
        return self.kv_heads * 2 * self.head_dim


def nextn_storage(storage: Storage, asked: str | None) -> Storage:
    """How SGLang keeps the NEXTN layer (``models/qwen3_5_mtp.py``, ``_mtp_quant_config``).

    ``unquant`` and a checkpoint that is NVFP4 as a whole give the model's own dtype; a mixed checkpoint
    quantises it only if it names ``mtp.`` modules.
    """
    plain = unquantised("float32" if storage.width == 4 else "bfloat16")
    if storage.rules:
        return storage if any(name.startswith("mtp.") for name, _ in storage.rules) else plain
    return plain if asked == "unquant" or storage.default == "nvfp4" else storage


def nextn_parts(shape: TextShape, storage: Storage) -> tuple[Part, ...]:
    """Weights of the NEXTN layer without embedding and head, which it shares with the target in the end."""
    hidden, wide = shape.hidden, shape.streams * shape.hidden
    matrices: list[Matrix] = []
    vectors = [Vector("draft fusion", 2 * hidden * hidden + hidden + wide)]
    if shape.streams > 1:
        vectors.append(Vector("hyper connections", wide + 2 * shape.stream_rank * wide))
    else:
        vectors.append(Vector("norms", hidden))
    for layer in range(shape.mtp_layers):
        more = layer_weights(shape, f"mtp.layers.{layer}", full_attention=True)
        matrices += more[0]
        vectors += more[1]
    return gathered(
        [
            replace(part, name=f"draft {part.name.removeprefix('draft ')}")
            for part in storage.parts(matrices, vectors)
        ]
    )


def nextn_tables(shape: TextShape, storage: Storage) -> tuple[Part, ...]:
    """The embedding and head that SGLang builds for the draft and drops only after the pool is sized.

    See ``speculative/eagle_worker_v2.py``: ``alloc_memory_pool`` comes before ``init_lm_head``.
    """
    vectors = [table(shape, "draft embedding")] + ([] if shape.tied else [table(shape, "draft head")])
    return tuple(storage.plain(vector) for vector in vectors)


def read_dflash(config: dict[str, Any], where: Path) -> DFlashShape:
    """Read a DFlash draft's ``config.json``.

    Raises:
        CheckpointError: a field is missing, or only one of two that go together is there.
    """
    text = config.get("text_config", config)
    flash = config.get("dflash_config") or text.get("dflash_config")
    if not isinstance(flash, dict):
        raise CheckpointError(f"{where} has no dflash_config object; it is not the config of a DFlash draft.")
    for pair in (("conv_kernel_size", "conv_group_size"), ("selector_rank", "selector_top_k")):
        given = [key for key in pair if flash.get(key)]
        if len(given) == 1:
            raise CheckpointError(
                f"dflash_config in {where} gives {given[0]} alone; {' and '.join(pair)} go together."
            )
    layers = positive_int(text, "num_hidden_layers", where)
    return DFlashShape(
        layers=layers,
        hidden=positive_int(text, "hidden_size", where),
        inner=positive_int(text, "intermediate_size", where),
        heads=positive_int(text, "num_attention_heads", where),
        kv_heads=positive_int(text, "num_key_value_heads", where),
        head_dim=positive_int(text, "head_dim", where),
        vocab=positive_int(text, "vocab_size", where),
        targets=len(flash.get("target_layer_ids") or range(layers)),
        block=int(flash.get("block_size") or config.get("block_size") or 16),
        taps=int(flash.get("conv_kernel_size") or 0),
        group=int(flash.get("conv_group_size") or 1),
        rank=int(flash.get("selector_rank") or 0),
    )


def dflash_parts(draft: DFlashShape, storage: Storage) -> tuple[Part, ...]:
    """Weights of a DFlash draft; embedding and head are the target's."""
    hidden, queries, keys = draft.hidden, draft.heads * draft.head_dim, draft.kv_heads * draft.head_dim
    matrices = [Matrix("draft fusion", "fc", hidden, draft.targets * hidden)]
    vectors = [Vector("draft norms", 2 * hidden)]
    for layer in range(draft.layers):
        prefix = f"layers.{layer}"
        matrices += [
            Matrix("draft attention", f"{prefix}.self_attn.qkv_proj", queries + 2 * keys, hidden),
            Matrix("draft attention", f"{prefix}.self_attn.o_proj", hidden, queries),
            Matrix("draft mlp", f"{prefix}.mlp.gate_up_proj", 2 * draft.inner, hidden),
            Matrix("draft mlp", f"{prefix}.mlp.down_proj", hidden, draft.inner),
        ]
        vectors.append(Vector("draft norms", 2 * hidden + 2 * draft.head_dim))
        if draft.taps:
            one = 2 * draft.taps * hidden + 2 * draft.taps * (hidden // draft.group) * hidden
            vectors.append(Vector("draft convolutions", 2 * one))
    if draft.rank:
        vectors.append(Vector("draft selector", 2 * draft.vocab * draft.rank + draft.rank * hidden))
    return gathered(storage.parts(matrices, vectors))
