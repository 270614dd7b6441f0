"""The tensors that a DFlash2 draft must have, by name and shape.

SGLang's loader skips names that it does not know and checks none that it misses, so a draft with a tensor under another
name would run with uninitialised memory. Embedding and head are the target's.
"""

from pathlib import Path
from typing import Any

from penny_models.checkpoint.errors import CheckpointError
from penny_models.checkpoint.expected import Shapes
from penny_models.shapes.draft import DFlashShape, read_dflash

DRAFTS = ("DFlash2DraftModel", "DFlashDraftModel")
"""Values of ``architectures`` in ``config.json``."""


def is_draft(config: dict[str, Any]) -> bool:
    """Return whether a ``config.json`` is that of a DFlash draft."""
    named = config.get("architectures")
    return isinstance(named, list) and bool(named) and named[0] in DRAFTS


def _layer(draft: DFlashShape, prefix: str, bias: bool) -> Shapes:
    hidden, queries, keys = draft.hidden, draft.heads * draft.head_dim, draft.kv_heads * draft.head_dim
    rows = {"q_proj": queries, "k_proj": keys, "v_proj": keys}
    shapes: Shapes = {f"{prefix}self_attn.{name}.weight": (size, hidden) for name, size in rows.items()}
    if bias:
        shapes |= {f"{prefix}self_attn.{name}.bias": (size,) for name, size in rows.items()}
        shapes[f"{prefix}self_attn.o_proj.bias"] = (hidden,)
    shapes |= {
        f"{prefix}self_attn.o_proj.weight": (hidden, queries),
        f"{prefix}self_attn.q_norm.weight": (draft.head_dim,),
        f"{prefix}self_attn.k_norm.weight": (draft.head_dim,),
        f"{prefix}input_layernorm.weight": (hidden,),
        f"{prefix}post_attention_layernorm.weight": (hidden,),
        f"{prefix}mlp.gate_proj.weight": (draft.inner, hidden),
        f"{prefix}mlp.up_proj.weight": (draft.inner, hidden),
        f"{prefix}mlp.down_proj.weight": (hidden, draft.inner),
    }
    if draft.taps:
        for name in ("attention_conv", "mlp_conv"):
            shapes[f"{prefix}{name}.base_kernel"] = (2, draft.taps, hidden)
            groups = hidden // draft.group
            shapes[f"{prefix}{name}.kernel_projection.weight"] = (2 * draft.taps * groups, hidden)
    return shapes


def draft_tensors(config: dict[str, Any], where: Path) -> Shapes:
    """Return the tensors of the draft with this ``config.json``, without the optional prefix ``model.``.

    Raises:
        CheckpointError: ``config.json`` is wrong, or its sizes do not go together.
    """
    draft = read_dflash(config, where)
    if draft.hidden % draft.group:
        raise CheckpointError(
            f"conv_group_size {draft.group} in {where} does not divide hidden_size {draft.hidden}; correct config.json."
        )
    shapes: Shapes = {
        "fc.weight": (draft.hidden, draft.targets * draft.hidden),
        "hidden_norm.weight": (draft.hidden,),
        "norm.weight": (draft.hidden,),
    }
    for index in range(draft.layers):
        shapes |= _layer(draft, f"layers.{index}.", bool(config.get("attention_bias")))
    if draft.rank:
        shapes |= {
            "candidate_selector.predecessor_codebook": (draft.vocab, draft.rank),
            "candidate_selector.successor_codebook": (draft.vocab, draft.rank),
            "candidate_selector.hidden_projection.weight": (draft.rank, draft.hidden),
        }
    return shapes
