"""The reference CPU operation set: what stock SGLang's CPU path needs of ``sgl_kernel``, in plain PyTorch.

``registry`` names every operation; ``standin_path()`` is the folder that offers them to SGLang as
``sgl_kernel``.
"""

from pathlib import Path

from penny_kernels.cpu.accepted_tokens import (
    fill_accept_out_cache_loc_cpu,
    fill_bonus_tokens_cpu,
    rotate_input_ids_cpu,
)
from penny_kernels.cpu.attention import decode_attention_cpu, extend_attention_cpu
from penny_kernels.cpu.cache_locations import (
    assign_draft_cache_locs_contiguous_cpu,
    assign_extend_cache_locs_cpu,
    assign_req_to_token_pool_cpu,
    build_draft_decode_metadata_cpu,
    get_last_loc,
)
from penny_kernels.cpu.causal_conv1d import causal_conv1d_fn_cpu, causal_conv1d_update_cpu
from penny_kernels.cpu.draft_tree import build_tree_kernel_efficient_cpu, parents_of, verify_tree_greedy_cpu
from penny_kernels.cpu.gating import (
    fused_gate_sigmoid_mul,
    fused_gate_sigmoid_mul_add,
    fused_gdn_gating_cpu,
    fused_qkvzba_split_reshape_cat_contiguous_cpu,
    fused_sigmoid_mul_cpu,
)
from penny_kernels.cpu.gdn_recurrence import (
    chunk_gated_delta_rule_cpu,
    fused_sigmoid_gating_delta_rule_update_cpu,
)
from penny_kernels.cpu.kv_copy import (
    copy_all_layer_kv_cache_cpu,
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
    track_mamba_states_if_needed,
)
from penny_kernels.cpu.norms import (
    fused_qk_gemma_rmsnorm_cpu,
    fused_qk_gemma_rmsnorm_with_gate_cpu,
    fused_rmsnorm_gated_cpu,
    gemma_rmsnorm,
    l2norm_cpu,
)
from penny_kernels.cpu.operations import missing_operation, registry
from penny_kernels.cpu.qsa import gather_qsa_compressed_keys

__all__ = [
    "assign_draft_cache_locs_contiguous_cpu",
    "assign_extend_cache_locs_cpu",
    "assign_req_to_token_pool_cpu",
    "build_draft_decode_metadata_cpu",
    "build_tree_kernel_efficient_cpu",
    "causal_conv1d_fn_cpu",
    "causal_conv1d_update_cpu",
    "chunk_gated_delta_rule_cpu",
    "copy_all_layer_kv_cache_cpu",
    "decode_attention_cpu",
    "extend_attention_cpu",
    "fill_accept_out_cache_loc_cpu",
    "fill_bonus_tokens_cpu",
    "fused_commit_track_indices",
    "fused_conv_window_scatter_with_mask",
    "fused_gate_sigmoid_mul",
    "fused_gate_sigmoid_mul_add",
    "fused_gdn_gating_cpu",
    "fused_mamba_state_scatter_with_mask",
    "fused_qk_gemma_rmsnorm_cpu",
    "fused_qk_gemma_rmsnorm_with_gate_cpu",
    "fused_qkvzba_split_reshape_cat_contiguous_cpu",
    "fused_rmsnorm_gated_cpu",
    "fused_sigmoid_gating_delta_rule_update_cpu",
    "fused_sigmoid_mul_cpu",
    "gather_qsa_compressed_keys",
    "gemma_rmsnorm",
    "get_last_loc",
    "l2norm_cpu",
    "missing_operation",
    "parents_of",
    "registry",
    "rotate_input_ids_cpu",
    "scatter_mamba_states_after_mtp_verify",
    "standin_path",
    "track_mamba_states_all_layers",
    "track_mamba_states_if_needed",
    "transfer_kv_all_layer_direct_lf_pf",
    "transfer_kv_direct",
    "transfer_kv_per_layer_direct_pf_lf",
    "verify_tree_greedy_cpu",
]


def standin_path() -> Path:
    """Folder to put first on ``PYTHONPATH`` of a server started for the CPU; it holds the package
    ``sgl_kernel``.

    The package refuses to import unless ``SGLANG_USE_CPU_ENGINE=1``, and nothing but this folder makes it
    importable.
    """
    return Path(__file__).parent / "standin"
