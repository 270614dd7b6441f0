"""Moving recurrent and convolution states between pool slots, in all layers at once.

Twins of ``kernels/ops/mamba/mamba_state_scatter_triton.py``, with its signatures.
"""

from typing import Any

import torch
from torch import Tensor

from penny_kernels.cpu.state_slots import copy_all


def track_mamba_states_all_layers(
    conv_states_pool: Tensor,
    ssm_states_pool: Tensor,
    cache_indices: Tensor,
    mamba_track_mask: Tensor,
    mamba_track_indices: Tensor,
    batch_size: int,
    check_freed_slots: bool = False,
) -> None:
    """Copy the states of the masked requests to their tracking slots.

    Args:
        conv_states_pool, ssm_states_pool: [layers, slots, ...].
        cache_indices, mamba_track_mask, mamba_track_indices: [requests], from slot, whether, to slot.
        check_freed_slots: skip requests of which either slot is negative.
    """
    mask = mamba_track_mask[:batch_size].to(torch.bool)
    source, target = cache_indices[:batch_size][mask], mamba_track_indices[:batch_size][mask]
    if check_freed_slots:
        live = (source >= 0) & (target >= 0)
        source, target = source[live], target[live]
    if source.numel():
        for pool in (conv_states_pool, ssm_states_pool):
            pool[:, target] = pool[:, source]


def fused_mamba_state_scatter_with_mask(
    dst: Tensor,
    src: Tensor,
    dst_indices_raw: Tensor,
    step_indices_raw: Tensor,
    src_indices_raw: Tensor | None = None,
) -> None:
    """``dst[:, dst_indices[i]] = src[:, src_indices[i], steps[i]]`` for every request whose indices are in
    range.

    Args:
        dst: [layers, slots, ...]; ``src``: [layers, rows, steps, ...].
        dst_indices_raw, step_indices_raw: [requests]; a negative step leaves the slot alone.
        src_indices_raw: [requests]; None: request i has row i.
    """
    slots, steps = dst_indices_raw.tolist(), step_indices_raw.tolist()
    rows = list(range(len(steps))) if src_indices_raw is None else src_indices_raw.tolist()
    copy_all(
        [
            (dst[:, slot], src[:, row, step])
            for slot, row, step in zip(slots, rows, steps, strict=True)
            if 0 <= slot < dst.shape[1] and 0 <= row < src.shape[1] and 0 <= step < src.shape[2]
        ]
    )


fused_conv_window_scatter_with_mask = fused_mamba_state_scatter_with_mask
"""The same for convolution windows [layers, rows, steps, dim, width - 1], perhaps an overlapping view."""


def scatter_mamba_states_after_mtp_verify(
    mamba_caches: Any,
    state_indices_tensor: Tensor,
    last_correct_step_indices: Tensor,
    mamba_track_indices: Tensor | None,
    mamba_steps_to_track: Tensor | None,
    src_indices_raw: Tensor | None = None,
) -> None:
    """Commit the states after each request's last accepted draft token, and those at a tracking boundary.

    ``mamba_caches`` is stock's ``MambaPool.SpeculativeState``; indices and steps as above, all [requests].
    """
    pairs = [(mamba_caches.temporal, mamba_caches.intermediate_ssm)]
    pairs += zip(mamba_caches.conv, mamba_caches.intermediate_conv_window, strict=True)
    for dst, src in pairs:
        fused_mamba_state_scatter_with_mask(
            dst, src, state_indices_tensor, last_correct_step_indices, src_indices_raw
        )
        if mamba_track_indices is not None:
            assert mamba_steps_to_track is not None
            fused_mamba_state_scatter_with_mask(
                dst, src, mamba_track_indices, mamba_steps_to_track, src_indices_raw
            )


def fused_commit_track_indices(
    accept_index: Tensor,
    accept_lens: Tensor,
    seq_lens: Tensor | None,
    draft_token_num: int,
    mamba_track_interval: int,
) -> tuple[Tensor, Tensor | None]:
    """Steps whose states are to be kept after verification.

    Args:
        accept_index: [requests, depth], accepted rows of the flat batch of ``requests * draft_token_num``.
        accept_lens: [requests], accepted rows, the bonus included; ``seq_lens``: [requests] before
            verification.

    Returns:
        (step of the last accepted token [requests], step at which the length crosses a multiple of
        ``mamba_track_interval`` or -1 [requests]; None without ``seq_lens``), int64.
    """
    base = torch.arange(accept_lens.shape[0]) * draft_token_num
    accepted = accept_lens.to(torch.int64)
    index = accept_index.to(torch.int64)
    last = index.gather(1, (accepted - 1).unsqueeze(1)).squeeze(1) - base
    if seq_lens is None:
        return last, None
    before = seq_lens.to(torch.int64)
    boundary = (before + accepted) // mamba_track_interval
    at = (boundary * mamba_track_interval - before - 1).clamp(min=0)
    crossing = index.gather(1, at.unsqueeze(1)).squeeze(1) - base
    return last, crossing.where(before // mamba_track_interval != boundary, -1)
