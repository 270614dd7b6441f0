"""The reference CPU operation set: what stock SGLang's CPU path needs of ``sgl_kernel``, in plain PyTorch.

``registry`` holds every operation that stock takes from ``sgl_kernel``, and ``standin_path()`` is the folder
that offers them to SGLang under that name. The other functions stand in for stock's Triton kernels, with
their signatures, where stock has no CPU branch.
"""

from pathlib import Path

from penny_kernels.cpu import accepted_tokens, attention, cache_locations, causal_conv1d, draft_tree
from penny_kernels.cpu.gating import fused_gate_sigmoid_mul, fused_gate_sigmoid_mul_add
from penny_kernels.cpu.gdn_recurrence import CHUNK
from penny_kernels.cpu.kv_copy import (
    transfer_kv_all_layer_direct_lf_pf,
    transfer_kv_direct,
    transfer_kv_per_layer_direct_pf_lf,
)
from penny_kernels.cpu.mamba_scatter import (
    fused_commit_track_indices,
    fused_conv_window_scatter_with_mask,
    fused_mamba_state_scatter_with_mask,
    scatter_mamba_states_after_mtp_verify,
    track_mamba_states_all_layers,
)
from penny_kernels.cpu.murmur_hash import murmur_hash32_cpu
from penny_kernels.cpu.norms import fused_rmsnorm_gated_cpu, gemma_rmsnorm
from penny_kernels.cpu.operations import missing_operation, registry
from penny_kernels.cpu.qsa import gather_qsa_compressed_keys

__all__ = [
    "CHUNK",
    "accepted_tokens",
    "attention",
    "cache_locations",
    "causal_conv1d",
    "draft_tree",
    "fused_commit_track_indices",
    "fused_conv_window_scatter_with_mask",
    "fused_gate_sigmoid_mul",
    "fused_gate_sigmoid_mul_add",
    "fused_mamba_state_scatter_with_mask",
    "fused_rmsnorm_gated_cpu",
    "gather_qsa_compressed_keys",
    "gemma_rmsnorm",
    "missing_operation",
    "murmur_hash32_cpu",
    "registry",
    "scatter_mamba_states_after_mtp_verify",
    "standin_path",
    "track_mamba_states_all_layers",
    "transfer_kv_all_layer_direct_lf_pf",
    "transfer_kv_direct",
    "transfer_kv_per_layer_direct_pf_lf",
]


def standin_path() -> Path:
    """Folder to put first on ``PYTHONPATH`` of a server started for the CPU; it holds ``sgl_kernel``.

    The package refuses to import unless ``SGLANG_USE_CPU_ENGINE=1``, and nothing but this folder makes it
    importable.
    """
    return Path(__file__).parent / "standin"
