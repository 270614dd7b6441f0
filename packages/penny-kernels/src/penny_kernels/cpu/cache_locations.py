"""Index bookkeeping of the token table: which pool slot holds which token of which request.

Twins of the Triton kernels in ``kernels/ops/speculative/cache_locs.py`` and ``srt/mem_cache/allocation.py``.
The table is ``req_to_token`` [request slots, tokens]; ``pool_len``, its width, is passed by stock and not
needed here.
"""

import torch
from torch import Tensor

from penny_kernels.cpu.operations import operation
from penny_kernels.cpu.ragged import flat_positions


@operation("sgl_kernel")
def assign_req_to_token_pool_cpu(
    req_pool_indices: Tensor,
    req_to_token: Tensor,
    start_offset: Tensor,
    end_offset: Tensor,
    out_cache_loc: Tensor,
    pool_len: int,
) -> None:
    """Write the slots ``out_cache_loc`` into the table at each request's ``[start_offset, end_offset)``."""
    rows, columns = flat_positions(start_offset, end_offset - start_offset)
    req_to_token[req_pool_indices[rows], columns] = out_cache_loc[: rows.numel()].to(req_to_token.dtype)


@operation("sgl_kernel")
def assign_extend_cache_locs_cpu(
    req_pool_indices: Tensor,
    req_to_token: Tensor,
    start_offset: Tensor,
    end_offset: Tensor,
    out_cache_loc: Tensor,
    pool_len: int,
) -> None:
    """Read each request's slots at ``[start_offset, end_offset)`` into ``out_cache_loc``, end to end."""
    rows, columns = flat_positions(start_offset, end_offset - start_offset)
    out_cache_loc[: rows.numel()] = req_to_token[req_pool_indices[rows], columns].to(out_cache_loc.dtype)


@operation("sgl_kernel")
def assign_draft_cache_locs_contiguous_cpu(
    req_pool_indices: Tensor,
    req_to_token: Tensor,
    seq_lens: Tensor,
    out_cache_loc: Tensor,
    pool_len: int,
    topk: int,
    speculative_num_steps: int,
) -> None:
    """Read the ``topk * speculative_num_steps`` slots after each request's tokens into ``out_cache_loc``."""
    columns = seq_lens.unsqueeze(1) + torch.arange(topk * speculative_num_steps)
    slots = req_to_token[req_pool_indices.unsqueeze(1), columns].reshape(-1)
    out_cache_loc[: slots.numel()] = slots.to(out_cache_loc.dtype)


@operation("sgl_kernel")
def build_draft_decode_metadata_cpu(
    req_to_token: Tensor, req_pool_indices: Tensor, seq_lens: Tensor, topk: int, num_steps: int, pool_len: int
) -> Tensor:
    """One token table row for each of a request's ``topk`` draft branches.

    Returns:
        [requests * topk, longest + num_steps], dtype of the table: branch j of a request has the request's
        tokens and then its own ``num_steps`` draft slots, which lie in the table at ``seq_len + j *
        num_steps``. It is as wide as it needs to be and not ``pool_len``; readers take the width from it.
    """
    longest = int(seq_lens.max())
    rows = req_to_token[req_pool_indices, :longest].repeat_interleave(topk, 0)
    table = torch.cat((rows, rows.new_zeros(rows.shape[0], num_steps)), 1)
    lengths = seq_lens.to(torch.int64).repeat_interleave(topk)
    branch = torch.arange(topk).repeat(seq_lens.numel())
    steps = torch.arange(num_steps)
    source = (lengths + branch * num_steps).unsqueeze(1) + steps
    drafts = req_to_token[req_pool_indices.repeat_interleave(topk).unsqueeze(1), source]
    return table.scatter_(1, lengths.unsqueeze(1) + steps, drafts)
