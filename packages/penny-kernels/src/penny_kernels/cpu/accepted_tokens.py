"""Bookkeeping after verification: bonus tokens, accepted slots, and the drafter's shifted inputs.

Twins of the Triton kernels in ``kernels/ops/speculative/eagle.py`` and ``multi_layer_eagle.py``.
"""

import torch
from torch import Tensor

from penny_kernels.cpu.operations import operation


@operation("sgl_kernel")
def fill_bonus_tokens_cpu(
    accept_tokens: Tensor, accept_lens: Tensor, bonus_tokens: Tensor, accept_stride: int
) -> None:
    """Write each request's last accepted token (``accept_lens`` counts it) into ``bonus_tokens`` [requests].

    ``accept_tokens`` is flat with ``accept_stride`` entries per request.
    """
    last = torch.arange(accept_lens.numel()) * accept_stride + accept_lens - 1
    bonus_tokens[: last.numel()] = accept_tokens.reshape(-1)[last].to(bonus_tokens.dtype)


@operation("sgl_kernel")
def fill_accept_out_cache_loc_cpu(
    accept_index: Tensor, out_cache_loc: Tensor, accept_out_cache_loc: Tensor
) -> None:
    """Pack the slots of the accepted rows (``accept_index`` >= 0, in order) at the front of the output."""
    flat = accept_index.reshape(-1)
    slots = out_cache_loc[flat[flat >= 0]]
    accept_out_cache_loc[: slots.numel()] = slots.to(accept_out_cache_loc.dtype)


@operation("sgl_kernel")
def rotate_input_ids_cpu(
    input_ids: Tensor,
    extend_start_loc: Tensor,
    extend_seq_lens: Tensor,
    topk_index: Tensor,
    select_index: Tensor | None = None,
) -> None:
    """Shift each request's ids left by one, in place, and put its new token last (or at ``select_index``).

    Args:
        input_ids: [tokens], requests end to end from the first ``extend_start_loc``.
        extend_start_loc, extend_seq_lens: [requests]; an empty request is left alone.
        topk_index: [requests] or [requests, 1], the new tokens; ``select_index``: [requests] flat positions.
    """
    alive = extend_seq_lens > 0
    last = (extend_start_loc + extend_seq_lens - 1)[alive].to(torch.int64)
    if last.numel() == 0:
        return
    begin, end = int(extend_start_loc[alive].min()), int(last.max()) + 1
    kept = input_ids[last]
    input_ids[begin : end - 1] = input_ids[begin + 1 : end].clone()
    input_ids[last] = kept
    target = last if select_index is None else select_index[alive].to(torch.int64)
    input_ids[target] = topk_index.reshape(-1)[alive].to(input_ids.dtype)
