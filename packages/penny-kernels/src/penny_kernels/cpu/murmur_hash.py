"""The hash that turns a request's seed, a position and a token id into that token's random number."""

from torch import Tensor, int64, uint32

from penny_kernels.cpu.operations import operation

MASK = 0xFFFFFFFF


def _rotated(x: Tensor, bits: int) -> Tensor:
    return ((x << bits) | (x >> (32 - bits))) & MASK


def _mixed(state: Tensor | int, block: Tensor) -> Tensor:
    block = _rotated((block * 0xCC9E2D51) & MASK, 15)
    state = ((block * 0x1B873593) & MASK) ^ state
    return (_rotated(state, 13) * 5 + 0xE6546B64) & MASK


@operation("torch.ops.sgl_kernel")
def murmur_hash32_cpu(seed: Tensor, positions: Tensor, col_indices: Tensor) -> Tensor:
    """MurmurHash3 (x86, 32 bits, seed 0) of each row's 64-bit seed, 32-bit position and 32-bit column.

    Args:
        seed: [n], uint64 or int64.
        positions: [n], integers.
        col_indices: [m], integers.

    Returns:
        [n, m], uint32: element (i, j) hashes the 16 little-endian bytes of ``seed[i]``, ``positions[i]``,
        ``col_indices[j]``.

    Source: A. Appleby, MurmurHash3; SGLang's Triton kernel of the same name.
    """
    wide = seed.view(int64)
    state = _mixed(_mixed(0, wide & MASK), (wide >> 32) & MASK)
    state = _mixed(state, positions.to(int64) & MASK)
    hashed = _mixed(state[:, None], (col_indices.to(int64) & MASK)[None, :])
    hashed ^= 16
    hashed ^= hashed >> 16
    hashed = (hashed * 0x85EBCA6B) & MASK
    hashed ^= hashed >> 13
    hashed = (hashed * 0xC2B2AE35) & MASK
    hashed ^= hashed >> 16
    return hashed.to(uint32)
