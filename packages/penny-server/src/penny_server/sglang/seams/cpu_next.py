"""Flash-Next (``qwen4_exp``) on a CPU: the places where stock has a form for a GPU only.

Everything else of the family has a path in plain PyTorch in stock, or an operation in the ``sgl_kernel`` stand-in.
They are a feature of their own: what they hook is imported with them, which a server of another family is spared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penny_server.sglang.lazy import lazy
from penny_server.sglang.probes import hooked
from penny_server.sglang.seam import Kind, Seam

FEATURE = "cpu-next"
QSA = "sglang.srt.layers.attention.qsa"
ELEMENTWISE = "sglang.kernels.ops.elementwise.elementwise"


def _portable_indexer() -> None:
    """`_forward_impl`, which stock offers to a GPU and an XPU, has a PyTorch path behind each of its kernels."""
    from sglang.srt.layers.attention.qsa.qsa_indexer import QSAIndexer

    QSAIndexer.forward_native = QSAIndexer.forward_xpu


def _indexer_is_portable() -> bool:
    from sglang.srt.layers.attention.qsa.qsa_indexer import QSAIndexer

    return QSAIndexer.forward_native is QSAIndexer.forward_xpu


def _gated_norm(original: Callable[..., Any], norm: Any, x: Any, z: Any = None) -> Any:
    """The output gate that the config may ask for as ``output_gate_type``; stock's CPU branch knows only SiLU."""
    if norm.activation != "sigmoid" or norm.group_size is not None or not norm.norm_before_gate:
        return original(norm, x, z)
    from penny_kernels.cpu import fused_rmsnorm_gated_cpu

    return fused_rmsnorm_gated_cpu(x, norm.weight, z, norm.eps, "sigmoid")


def _sigmoid_gates() -> bool:
    import torch
    from sglang.kernels.ops.attention.fla.layernorm_gated import RMSNorm

    x = torch.tensor([[3.0, 4.0]])
    found = RMSNorm(2, eps=0.0, activation="sigmoid")(x, torch.zeros_like(x))
    return bool(torch.allclose(found, 0.5 * x / 12.5**0.5))


def _seam(
    name: str, target: str, digest: str, summary: str, hook: Any, probe: Any = None, kind: Kind = "replace"
) -> Seam:
    return Seam(
        f"{FEATURE}.{name}", FEATURE, target, digest, summary, kind, hook, probe or (lambda: hooked(target)),
        ("scheduler",),
    )  # fmt: skip


SEAMS = (
    _seam(
        "sigmoid-gate",
        "sglang.kernels.ops.attention.fla.layernorm_gated.RMSNorm.forward",
        "1edbcfc2c1d05b91",
        "gives the gated RMSNorm of GDN layers a sigmoid gate beside the SiLU one",
        _gated_norm,
        _sigmoid_gates,
        "around",
    ),
    _seam(
        "qsa-indexer",
        f"{QSA}.qsa_indexer.QSAIndexer._forward_impl",
        "05d275d70a7a5491",
        "lets the sparse-attention index run on a CPU, through stock's portable path",
        _portable_indexer,
        _indexer_is_portable,
        "set",
    ),
    _seam(
        "qsa-keys",
        f"{QSA}.kernel.gather_qsa_compressed_keys",
        "08f034abf96f324a",
        "gathers the compressed keys of the sparse-attention index",
        lazy("penny_kernels.cpu:gather_qsa_compressed_keys"),
    ),
    _seam(
        "shared-expert",
        f"{ELEMENTWISE}.fused_gate_sigmoid_mul_add",
        "c1c5ad5f79e3e743",
        "adds the gated shared expert to the routed experts",
        lazy("penny_kernels.cpu:fused_gate_sigmoid_mul_add"),
    ),
)
