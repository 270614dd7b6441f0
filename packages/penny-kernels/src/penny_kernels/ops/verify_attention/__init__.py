"""Attention of a fixed-width block of draft tokens over a paged KV cache, as a target verifies it."""

from penny_kernels.ops.verify_attention.mask import chain_mask, pack_mask, unpack_mask
from penny_kernels.ops.verify_attention.naive import verify_attention

__all__ = ["chain_mask", "pack_mask", "unpack_mask", "verify_attention"]
