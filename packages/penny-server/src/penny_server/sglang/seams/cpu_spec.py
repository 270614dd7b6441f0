"""Speculation on a CPU: draft attention, sampling and the commit of recurrent states, which stock has for accelerators.

Draft trees, their greedy verification and the bookkeeping of accepted tokens come from the ``sgl_kernel`` stand-in.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penny_server.sglang import verdict
from penny_server.sglang.lazy import lazy
from penny_server.sglang.probes import hooked
from penny_server.sglang.seam import Kind, Seam

FEATURE = "cpu-spec"
SCATTER = "sglang.kernels.ops.mamba.mamba_state_scatter_triton"
DRAFT_BACKENDS = "sglang.srt.speculative.draft_utils.DraftBackendFactory"
MEMORY = "sglang.kernels.ops.memory.common"
GREEDY = "sglang.srt.speculative.eagle_utils._verify_uses_greedy"
SAMPLE = "sglang.srt.speculative.eagle_utils.eagle_sample"


def _last_loc(req_to_token: Any, req_pool_indices: Any, prefix_lens: Any) -> Any:
    """The PyTorch form that stands beside stock's Triton one."""
    from sglang.srt.mem_cache.allocation import get_last_loc_torch

    return get_last_loc_torch(req_to_token, req_pool_indices, prefix_lens)


def _decode_backend(factory: Any) -> Any:
    return factory._create_intel_amx_decode_backend()


def _prefill_backend(factory: Any) -> Any:
    return factory._create_intel_amx_prefill_backend()


def _as_elsewhere(original: Callable[..., bool], **given: bool) -> bool:
    """On a CPU stock takes the argmax for every request, whatever temperature it asks for."""
    return original(**given | {"is_cpu": False})


def _target_only(**given: Any) -> None:
    """Stock's kernel for drafts that were not sampled, for chains; it has none for a CPU."""
    from penny_spec.verify import target_only

    drafts, target = given["candidates"][:, 1:].long(), given["target_probs"].float()
    verdict.write(given, target_only(drafts, target, verdict.coins_of(given), validate=False))


def _operations() -> None:
    """Where stock has ``None`` on a CPU. Its DFLASH code has the two renormalisations in PyTorch."""
    from sglang.srt.speculative import dflash_utils, eagle_utils

    eagle_utils.tree_speculative_sampling_target_only = _target_only
    eagle_utils.top_k_renorm_prob = dflash_utils._dflash_top_k_renorm_prob
    eagle_utils.top_p_renorm_prob = dflash_utils._dflash_top_p_renorm_prob


def _operations_are_there() -> bool:
    import torch
    from sglang.srt.speculative import eagle_utils

    kept = eagle_utils.top_k_renorm_prob(torch.tensor([[0.5, 0.3, 0.2]]), torch.tensor([1]))
    return kept.tolist() == [[1.0, 0.0, 0.0]] and (
        eagle_utils.tree_speculative_sampling_target_only is _target_only
    )


def _seam(
    name: str,
    target: str,
    digest: str,
    summary: str,
    hook: Any,
    kind: Kind = "replace",
    probe: Callable[[], bool] | None = None,
) -> Seam:
    return Seam(
        f"{FEATURE}.{name}", FEATURE, target, digest, summary, kind, hook, probe or (lambda: hooked(target)),
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
    _seam(
        "sampled",
        GREEDY,
        "aef4e7dc4b270f32",
        "verifies NEXTN drafts by sampling where a request samples; stock's CPU takes the argmax",
        _as_elsewhere,
        "around",
    ),
    _seam(
        "target-only",
        SAMPLE,
        "b497c62acadc5e71",
        "samples with penny-spec and PyTorch",
        _operations,
        "set",
        _operations_are_there,
    ),
)
