"""RMS normalisations of the two model families: gemma form (1 + w), gated form, and L2."""

import torch
import torch.nn.functional as F
from torch import Tensor

from penny_kernels.cpu.operations import operation


def gemma_rmsnorm(x: Tensor, weight: Tensor, eps: float) -> Tensor:
    """RMSNorm over the last dimension, times ``1 + weight``.

    Args:
        x: [..., dim], any float dtype, any strides.
        weight: [dim].
        eps: added to the mean square.

    Returns:
        [..., dim] in the dtype of ``x``, contiguous for an ``x`` whose rows are in order; float32 inside.
    """
    normed = torch.rms_norm(x.float(), weight.shape, None, eps)
    return normed.addcmul_(normed, weight.float()).to(x.dtype)


@operation("torch.ops.sgl_kernel")
def fused_qk_gemma_rmsnorm_cpu(
    q: Tensor, k: Tensor, q_weight: Tensor, k_weight: Tensor, eps: float, head_dim: int
) -> tuple[Tensor, Tensor]:
    """Normalise the heads of queries and keys (call site: ``models/qwen3_5.py``, ``_apply_qk_norm``).

    Args:
        q: [tokens, heads * head_dim], may be a strided part of a wider row; ``k`` likewise.
        q_weight, k_weight: [head_dim], applied as ``1 + weight``.

    Returns:
        (q [tokens * heads, head_dim], k [tokens * kv_heads, head_dim]), contiguous.
    """
    q_heads, k_heads = (x.view(x.shape[0], -1, head_dim) for x in (q, k))
    return (
        gemma_rmsnorm(q_heads, q_weight, eps).reshape(-1, head_dim),
        gemma_rmsnorm(k_heads, k_weight, eps).reshape(-1, head_dim),
    )


@operation("torch.ops.sgl_kernel")
def fused_qk_gemma_rmsnorm_with_gate_cpu(
    q_gate: Tensor,
    k: Tensor,
    q_weight: Tensor,
    k_weight: Tensor,
    eps: float,
    head_dim: int,
    num_heads: int,
) -> tuple[Tensor, Tensor, Tensor]:
    """The same with an output gate that lies beside each query head.

    Args:
        q_gate: [tokens, num_heads * 2 * head_dim], per head the query and then its gate; may be strided.
        k: [tokens, kv_heads * head_dim], may be strided.

    Returns:
        (q [tokens * num_heads, head_dim], k [tokens * kv_heads, head_dim], gate as q), contiguous.
    """
    heads = q_gate.view(q_gate.shape[0], num_heads, 2 * head_dim)
    q, gate = heads.split_with_sizes((head_dim, head_dim), -1)
    k_heads = k.view(k.shape[0], -1, head_dim)
    return (
        gemma_rmsnorm(q, q_weight, eps).view(-1, head_dim),
        gemma_rmsnorm(k_heads, k_weight, eps).reshape(-1, head_dim),
        gate.contiguous().view(-1, head_dim),
    )


@operation("torch.ops.sgl_kernel")
def fused_rmsnorm_gated_cpu(
    x: Tensor, weight: Tensor, z: Tensor, eps: float, activation: str = "silu"
) -> Tensor:
    """``weight * rmsnorm(x) * silu(z)``, the output norm of a gated delta net layer.

    Args:
        x, z: [rows, dim], one dtype; ``weight``: [dim].
        activation: ``silu``, or ``sigmoid`` for ``sigmoid(z)`` in its place; stock's operation knows only the first.

    Returns:
        [rows, dim] in the dtype of ``x``; float32 inside.
    """
    if activation not in ("silu", "sigmoid"):
        raise ValueError(f"The gate's activation is {activation!r}; it can be silu or sigmoid.")
    normed = torch.rms_norm(x.float(), weight.shape, weight.float(), eps)
    gate = F.silu(z.float()) if activation == "silu" else z.float().sigmoid()
    return normed.mul_(gate).to(x.dtype)


@operation("torch.ops.sgl_kernel")
def l2norm_cpu(x: Tensor, eps: float) -> Tensor:
    """``x / sqrt(sum(x^2) + eps)`` over the last dimension, in the dtype of ``x``; float32 inside."""
    wide = x.float()
    scale = wide.square().sum(-1, keepdim=True).add_(eps).rsqrt_()
    return (wide * scale).to(x.dtype)
