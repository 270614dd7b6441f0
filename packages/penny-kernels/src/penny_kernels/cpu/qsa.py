"""Compressed keys of Qwen sparse attention."""

import torch
from torch import Tensor

from penny_kernels.cpu.ragged import flat_positions


def gather_qsa_compressed_keys(
    compressed: Tensor,
    token_slot_table: Tensor,
    cu_blocks: Tensor,
    total_blocks: int,
    max_blocks: int,
    compress_ratio: int,
) -> Tensor:
    """Every sequence's complete compressed keys, packed in sequence order (twin of ``qsa/kernel.py``).

    Args:
        compressed: [compressed slots, heads, dim]; block b of a sequence is at its token ``b * ratio``'s slot
            // ratio.
        token_slot_table: [sequences, tokens]; ``cu_blocks``: [sequences + 1].

    Returns:
        [total_blocks, heads, dim].
    """
    counts = cu_blocks.diff()
    rows, blocks = flat_positions(torch.zeros_like(counts), counts)
    rows, blocks = rows[:total_blocks], blocks[:total_blocks]
    slots = token_slot_table[rows, blocks * compress_ratio].to(torch.int64) // compress_ratio
    return compressed[slots]
