"""Stock SGLang on a CPU without AMX: lifts the device gates and points device operations at our reference set.

The operations that SGLang imports by name come from the ``sgl_kernel`` stand-in of penny-kernels, which is on the
path of a CPU server only. These seams are for the gates and Triton kernels that no import reaches.
"""

from __future__ import annotations

from typing import Any

from penny_server.sglang.lazy import lazy
from penny_server.sglang.probes import hooked
from penny_server.sglang.seam import Kind, Role, Seam

FLA = "sglang.kernels.ops.attention.fla"
SCATTER = "sglang.kernels.ops.mamba.mamba_state_scatter_triton"


def _claim_amx() -> None:
    """SGLang drops its generic CPU attention backend unless the platform reports AMX tiles."""
    from sglang.srt.runtime_context import get_platform

    get_platform()._install(has_amx=True)


def _amx_claimed() -> bool:
    from sglang.srt.runtime_context import get_platform

    return bool(get_platform().has_amx)


def _use_cpu_norm() -> None:
    from sglang.kernels.ops.attention.fla import fused_norm_gate, layernorm_gated

    layernorm_gated._use_cpu = True
    fused_norm_gate._use_cpu = True


def _cpu_norm_used() -> bool:
    import torch
    from sglang.kernels.ops.attention.fla import fused_norm_gate
    from sglang.kernels.ops.attention.fla.layernorm_gated import RMSNorm

    x = torch.tensor([[3.0, 4.0]])
    found = RMSNorm(2, eps=0.0)(x, torch.full_like(x, 20.0))
    return fused_norm_gate._use_cpu and bool(torch.allclose(found, 20.0 * x / 12.5**0.5))


def _pageable_memory() -> None:
    """``torch.Tensor.pin_memory`` asks for a CUDA driver; a CPU server's tensors need no pinning."""
    import torch

    def pin_memory(self: torch.Tensor, device: Any = None) -> torch.Tensor:
        return self

    torch.Tensor.pin_memory = pin_memory  # type: ignore[method-assign, assignment]


def _memory_is_pageable() -> bool:
    import torch

    tensor = torch.zeros(1)
    return tensor.pin_memory() is tensor


def _extra_buffer_supported() -> bool:
    from sglang.srt.arg_groups import mamba_hook

    return bool(mamba_hook._platform_supports_mamba_cache_extra_buffer())


def _seam(
    name: str,
    target: str,
    digest: str,
    summary: str,
    hook: Any,
    probe: Any = None,
    kind: Kind = "replace",
    roles: tuple[Role, ...] = ("main", "scheduler"),
) -> Seam:
    return Seam(
        f"cpu.{name}", "cpu", target, digest, summary, kind, hook, probe or (lambda: hooked(target)), roles
    )


SEAMS = (
    _seam(
        "attention-backend",
        "sglang.srt.arg_groups.overrides._attention_backend_platform_fallbacks",
        "3079ae037f4ed53b",
        "keeps the generic CPU attention backend on a CPU without AMX",
        _claim_amx,
        _amx_claimed,
        "set",
    ),
    _seam(
        "extra-buffer",
        "sglang.srt.arg_groups.mamba_hook._platform_supports_mamba_cache_extra_buffer",
        "2f50f077e12260f0",
        "lets recurrent state be snapshotted for the prefix cache",
        lambda: True,
        _extra_buffer_supported,
    ),
    _seam(
        "gated-norm",
        f"{FLA}.layernorm_gated.RMSNorm.forward",
        "1edbcfc2c1d05b91",
        "runs the gated RMSNorm of GDN layers through the CPU operation instead of Triton",
        _use_cpu_norm,
        _cpu_norm_used,
        "set",
        ("scheduler",),
    ),
    _seam(
        "pageable-memory",
        "sglang.srt.managers.schedule_batch.ScheduleBatch.prepare_for_decode",
        "1690ff7deee18f0f",
        "makes pinning host memory a no-op: there is no driver to pin it for",
        _pageable_memory,
        _memory_is_pageable,
        "set",
        ("scheduler",),
    ),
    _seam(
        "track-states",
        f"{SCATTER}.track_mamba_states_all_layers",
        "a9721a5e349bd0f0",
        "snapshots recurrent states for the prefix cache after a decode step",
        lazy("penny_kernels.cpu:track_mamba_states_all_layers"),
        roles=("scheduler",),
    ),
)
