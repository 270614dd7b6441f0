"""The full-attention layer of Flash-Next in training: transformers' weights, one fused attention call."""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.models.qwen4_exp import modeling_qwen4_exp as family

from penny_models.training.base import Rotary


def project(layer: Any, x: Tensor, rotary: Rotary) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return query [B, N, T, D], key and value [B, K, T, D], and the output gate [B, T, N * D] of ``x``."""
    batch, length, _ = x.shape
    width = layer.head_dim
    query, gate = layer.q_proj(x).view(batch, length, -1, 2 * width).chunk(2, dim=-1)
    query = layer.q_norm(query).transpose(1, 2)
    key = layer.k_norm(layer.k_proj(x).view(batch, length, -1, width)).transpose(1, 2)
    value = layer.v_proj(x).view(batch, length, -1, width).transpose(1, 2)
    query, key = family.apply_rotary_pos_emb(query, key, *rotary)
    return query, key, value, gate.reshape(batch, length, -1)


def attend(
    layer: Any,
    x: Tensor,
    rotary: Rotary,
    mask: Tensor | None = None,
    past: list[tuple[Tensor, Tensor]] | None = None,
) -> Tensor:
    """Run the attention of ``layer`` (transformers' ``Qwen4ExpTextAttention``) over ``x`` [B, T, H].

    ``mask`` is boolean, broadcast to [B, N, T, keys]; None is plain causal attention. ``past`` collects keys
    and values of earlier draft steps, which the mask then covers.
    """
    query, key, value, gate = project(layer, x, rotary)
    if past is not None:
        past.append((key, value))
        key, value = (torch.cat(parts, dim=2) for parts in zip(*past, strict=True))
    if mask is not None:  # with a mask, few of PyTorch's kernels take heads that share keys
        groups = query.shape[1] // key.shape[1]
        key, value = key.repeat_interleave(groups, dim=1), value.repeat_interleave(groups, dim=1)
    out = F.scaled_dot_product_attention(
        query,
        key,
        value,
        attn_mask=mask,
        is_causal=mask is None,
        scale=layer.scaling,
        enable_gqa=mask is None,
    )
    out = out.transpose(1, 2).flatten(2) * gate.sigmoid()
    return layer.o_proj(out)  # type: ignore[no-any-return]
