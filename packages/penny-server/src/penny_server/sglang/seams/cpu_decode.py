"""A decode step of the dense Qwen3.5 layers on a CPU, without the wrappers around each operation.

A tiny model's step is some thousand Python calls, and most of them serve devices, parallelism and fusions that a CPU
server does not have. In a decode step these seams call the operations of the layer directly, in stock's order (the
RMSNorm is written with fewer calls and agrees to rounding); every other forward mode, and a layer that is not plain,
is left to stock.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from types import SimpleNamespace
from typing import Any

from penny_server.sglang.probes import hooked
from penny_server.sglang.seam import Seam

MODEL = "sglang.srt.models.qwen3_5"


@dataclass(frozen=True)
class _Layer:
    """What a decode step reads of a plain layer: weights, sizes and, for a gated delta net, its state pools."""

    norm: Any
    after: Any
    eps: float
    gate_up: Any
    down: Any
    mixer: Callable[[Any, Any, Any], Any]


def _is_plain(layer: Any) -> bool:
    """Whether the layer has a dense MLP and unquantised weights, without LoRA, on one device."""
    from sglang.srt.layers.quantization.unquant import UnquantizedLinearMethod
    from sglang.srt.models.qwen2_moe import Qwen2MoeMLP
    from sglang.srt.runtime_context import get_parallel

    linears = [m for m in layer.modules() if hasattr(m, "quant_method") and hasattr(m, "input_size")]
    return (
        type(layer.mlp) is Qwen2MoeMLP
        and get_parallel().tp_size == 1
        and not any("LoRA" in type(m).__name__ or m._forward_hooks for m in layer.modules())
        and all(type(m.quant_method) is UnquantizedLinearMethod and m.bias is None for m in linears)
    )


@cache
def _prepared(layer: Any) -> _Layer | None:
    """What the layer's decode steps read, collected at the first; None for a layer that stock must run."""
    if not _is_plain(layer):
        return None
    norm, after, mlp = layer.input_layernorm, layer.post_attention_layernorm, layer.mlp
    mixer = _delta_net(layer.linear_attn) if hasattr(layer, "linear_attn") else partial(_attention, layer)
    gate_up, down = mlp.gate_up_proj.weight, mlp.down_proj.weight
    return _Layer(norm.weight, after.weight, norm.variance_epsilon, gate_up, down, mixer)


def _layer(original: Callable[..., Any], layer: Any, *args: Any, **kwargs: Any) -> Any:
    batch = kwargs.get("forward_batch")
    captures = kwargs.get("captured_last_layer_outputs") is not None
    plan = (
        None if args or captures or batch is None or not batch.forward_mode.is_decode() else _prepared(layer)
    )
    if batch is None or plan is None:
        return original(layer, *args, **kwargs)
    operation = _operations()
    stream, hidden = batch.residual_stream, kwargs["hidden_states"]
    residual = hidden if stream.pending is None else hidden + stream.residual
    hidden = plan.mixer(
        operation.gemma_rmsnorm(residual, plan.norm, plan.eps), kwargs.get("positions"), batch
    )
    residual = residual + hidden
    hidden = operation.linear(operation.gemma_rmsnorm(residual, plan.after, plan.eps), plan.gate_up)
    gate, up = hidden.chunk(2, -1)
    stream.write(residual)
    return stream.record(operation.linear(operation.silu(gate) * up, plan.down), operation.plain_add)


def _attention(layer: Any, hidden: Any, positions: Any, batch: Any) -> Any:
    return layer.self_attention(positions, hidden, batch)


def _delta_net(net: Any) -> Callable[[Any, Any, Any], Any]:
    """The decode step of a gated delta net as one function over its weights and state pools."""
    operation, backend, attn = _operations(), _operations().backend().linear_attn_backend, net.attn
    state = backend.req_to_token_pool.mamba2_layer_cache(attn.layer_id)
    conv, temporal = state.conv[0], state.temporal
    qkvz, ba, norm, out = net.in_proj_qkvz.weight, net.in_proj_ba.weight, net.norm.weight, net.out_proj.weight
    sizes = (net.num_k_heads, net.num_v_heads, net.head_k_dim, net.head_v_dim)
    parts = (attn.q_dim, attn.k_dim, attn.v_dim)
    heads = (attn.num_q_heads, attn.head_q_dim), (attn.num_k_heads, attn.head_k_dim), sizes[1::2]
    a_log, dt_bias, eps = attn.A_log, attn.dt_bias, net.norm.eps

    def step(hidden: Any, positions: Any, batch: Any) -> Any:
        slots = backend.forward_metadata.mamba_cache_indices
        mixed, z, b, a = operation.split(operation.linear(hidden, qkvz), operation.linear(hidden, ba), *sizes)
        mixed = operation.conv(mixed, conv, attn.conv_weights, None, "silu", conv_state_indices=slots)
        q, k, v = (
            x.view(1, -1, *shape) for x, shape in zip(mixed.split_with_sizes(parts, -1), heads, strict=True)
        )
        starts = backend.forward_metadata.query_start_loc
        core = operation.delta_rule(a_log, dt_bias, q, k, v, a, b, temporal, slots, starts)
        backend._track_mamba_state_decode(batch, conv, temporal, slots, attn.layer_id)
        rows = core.view(-1, sizes[3])
        normed = operation.gated_norm(rows, norm, z.reshape(rows.shape), eps)
        return operation.linear(normed.view(hidden.shape[0], -1), out)

    return step


@cache
def _operations() -> SimpleNamespace:
    import torch.nn.functional as F
    from sglang.srt.layers.layer_boundary.residual.add_norm import PLAIN_ADD
    from sglang.srt.model_executor.forward_context import get_attn_backend

    from penny_kernels import cpu

    fused = cpu.registry["torch.ops.sgl_kernel"]
    return SimpleNamespace(
        backend=get_attn_backend,
        conv=cpu.registry["sgl_kernel.mamba"]["causal_conv1d_update_cpu"],
        delta_rule=fused["fused_sigmoid_gating_delta_rule_update_cpu"],
        gated_norm=fused["fused_rmsnorm_gated_cpu"],
        gemma_rmsnorm=cpu.gemma_rmsnorm,
        linear=F.linear,
        plain_add=PLAIN_ADD,
        silu=F.silu,
        split=fused["fused_qkvzba_split_reshape_cat_contiguous_cpu"],
    )


def _decode(name: str, target: str, digest: str) -> Seam:
    return Seam(
        f"cpu.{name}", "cpu", target, digest, "runs a decode step without wrappers", "around",
        _layer, lambda: hooked(target), ("scheduler",),
    )  # fmt: skip


SEAMS = (
    _decode("decode-linear-layer", f"{MODEL}.Qwen3_5LinearDecoderLayer.forward", "6a8c403bcd002144"),
    _decode("decode-attention-layer", f"{MODEL}.Qwen3_5AttentionDecoderLayer.forward", "a8b87cc4ac429c19"),
)
