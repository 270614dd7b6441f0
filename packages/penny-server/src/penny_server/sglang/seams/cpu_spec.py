"""Speculation on a CPU: draft attention and the commit of recurrent states, which stock has for accelerators only.

Draft trees, their verification and the bookkeeping of accepted tokens come from the ``sgl_kernel`` stand-in.
"""

from __future__ import annotations

from typing import Any

from penny_server.sglang.lazy import lazy
from penny_server.sglang.probes import hooked
from penny_server.sglang.seam import Seam

FEATURE = "cpu-spec"
SCATTER = "sglang.kernels.ops.mamba.mamba_state_scatter_triton"
DRAFT_BACKENDS = "sglang.srt.speculative.draft_utils.DraftBackendFactory"
MEMORY = "sglang.kernels.ops.memory.common"


def _last_loc(req_to_token: Any, req_pool_indices: Any, prefix_lens: Any) -> Any:
    """The PyTorch form that stands beside stock's Triton one."""
    from sglang.srt.mem_cache.allocation import get_last_loc_torch

    return get_last_loc_torch(req_to_token, req_pool_indices, prefix_lens)


def _decode_backend(factory: Any) -> Any:
    return factory._create_intel_amx_decode_backend()


def _prefill_backend(factory: Any) -> Any:
    return factory._create_intel_amx_prefill_backend()


def _seam(name: str, target: str, digest: str, summary: str, hook: Any) -> Seam:
    return Seam(
        f"{FEATURE}.{name}", FEATURE, target, digest, summary, "replace", hook, lambda: hooked(target),
        ("scheduler",),
    )  # fmt: skip


SEAMS = (
    _seam(
        "draft-decode",
        f"{DRAFT_BACKENDS}._create_hybrid_linear_attn_decode_backend",
        "33dc60f2233350e3",
        "gives the draft steps of a hybrid model the generic CPU attention backend",
        _decode_backend,
    ),
    _seam(
        "draft-extend",
        f"{DRAFT_BACKENDS}._create_hybrid_linear_attn_prefill_backend",
        "2f928ff6e425046a",
        "gives the draft's prefill the generic CPU attention backend",
        _prefill_backend,
    ),
    _seam(
        "last-loc",
        f"{MEMORY}.get_last_loc_triton",
        "1cc7065a5c474668",
        "finds the last slot of each request through stock's PyTorch form",
        _last_loc,
    ),
    _seam(
        "accepted-states",
        f"{SCATTER}.scatter_mamba_states_after_mtp_verify",
        "d4cb8e2fc1134af7",
        "commits the recurrent states of the accepted tokens",
        lazy("penny_kernels.cpu:scatter_mamba_states_after_mtp_verify"),
    ),
    _seam(
        "state-scatter",
        f"{SCATTER}.fused_mamba_state_scatter_with_mask",
        "a94dfc407eee32a2",
        "copies recurrent states between slots where a mask says so",
        lazy("penny_kernels.cpu:fused_mamba_state_scatter_with_mask"),
    ),
    _seam(
        "window-scatter",
        f"{SCATTER}.fused_conv_window_scatter_with_mask",
        "ebe82705a8f1fe84",
        "copies convolution windows between slots where a mask says so",
        lazy("penny_kernels.cpu:fused_conv_window_scatter_with_mask"),
    ),
    _seam(
        "track-indices",
        f"{SCATTER}.fused_commit_track_indices",
        "c9bb2064b6366746",
        "finds the accepted step whose state the prefix cache keeps",
        lazy("penny_kernels.cpu:fused_commit_track_indices"),
    ),
)
