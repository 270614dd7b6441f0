"""Which operation is offered under which part of ``sgl_kernel``."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, Literal, NoReturn

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
)
from penny_kernels.cpu.causal_conv1d import causal_conv1d_fn_cpu, causal_conv1d_update_cpu
from penny_kernels.cpu.draft_tree import build_tree_kernel_efficient_cpu, verify_tree_greedy_cpu
from penny_kernels.cpu.gating import (
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
from penny_kernels.cpu.murmur_hash import murmur_hash32_cpu
from penny_kernels.cpu.norms import (
    fused_qk_gemma_rmsnorm_cpu,
    fused_qk_gemma_rmsnorm_with_gate_cpu,
    fused_rmsnorm_gated_cpu,
    l2norm_cpu,
)

Place = Literal["torch.ops.sgl_kernel", "sgl_kernel", "sgl_kernel.mamba", "sgl_kernel.kvcacheio"]
Operations = Mapping[str, Callable[..., Any]]


def _named(*operations: Callable[..., Any]) -> Operations:
    return MappingProxyType({operation.__name__: operation for operation in operations})


registry: Mapping[Place, Operations] = MappingProxyType(
    {
        "torch.ops.sgl_kernel": _named(
            decode_attention_cpu,
            extend_attention_cpu,
            fused_gdn_gating_cpu,
            fused_qk_gemma_rmsnorm_cpu,
            fused_qk_gemma_rmsnorm_with_gate_cpu,
            fused_qkvzba_split_reshape_cat_contiguous_cpu,
            fused_rmsnorm_gated_cpu,
            fused_sigmoid_gating_delta_rule_update_cpu,
            fused_sigmoid_mul_cpu,
            l2norm_cpu,
            murmur_hash32_cpu,
        ),
        "sgl_kernel": _named(
            assign_draft_cache_locs_contiguous_cpu,
            assign_extend_cache_locs_cpu,
            assign_req_to_token_pool_cpu,
            build_draft_decode_metadata_cpu,
            build_tree_kernel_efficient_cpu,
            copy_all_layer_kv_cache_cpu,
            fill_accept_out_cache_loc_cpu,
            fill_bonus_tokens_cpu,
            rotate_input_ids_cpu,
            verify_tree_greedy_cpu,
        ),
        "sgl_kernel.mamba": _named(
            causal_conv1d_fn_cpu, causal_conv1d_update_cpu, chunk_gated_delta_rule_cpu
        ),
        "sgl_kernel.kvcacheio": _named(
            transfer_kv_all_layer_direct_lf_pf, transfer_kv_direct, transfer_kv_per_layer_direct_pf_lf
        ),
    }
)
"""Every operation by the module (or operation namespace) that stock SGLang takes it from, and by its name
there.
"""


def missing_operation(module: str, name: str) -> Callable[..., NoReturn]:
    """What the stand-in hands out for a name that it lacks: stock imports many that it never calls here.

    Returns:
        A callable that raises NotImplementedError, naming the operation, when it is called.

    Raises:
        AttributeError: for names that start with an underscore, which are probes of the module itself.
    """
    if name.startswith("_"):
        raise AttributeError(f"module {module!r} has no attribute {name!r}")

    def missing(*args: object, **kwargs: object) -> NoReturn:
        raise NotImplementedError(
            f"{module}.{name} is not in Penny's CPU operation set, which serves qwen3_5 and qwen4_exp. "
            "Use a GPU profile for what needs it."
        )

    missing.__name__ = missing.__qualname__ = name
    return missing
