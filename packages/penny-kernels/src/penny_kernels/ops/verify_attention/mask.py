"""Which draft tokens each row of a block sees, as bits: the mask of FlashInfer's XQA kernels.

Source: ``flashinfer.xqa`` 0.7.2. A row takes whole groups of 32 bits, stored as uint16: bit ``b`` of word ``w`` is
draft token ``16 w + b``. The tokens before the block are always seen and have no bits.
"""

from __future__ import annotations

import torch
from torch import Tensor

WORD = 16


def words_of(width: int) -> int:
    """Words of uint16 in a row of a block of ``width`` tokens: whole groups of 32 bits."""
    return (width + 31) // 32 * 2


def chain_mask(width: int) -> Tensor:
    """Bool [width, width]: row ``i`` sees the tokens up to itself, as in a chain of drafts."""
    return torch.ones(width, width, dtype=torch.bool).tril()


def pack_mask(seen: Tensor) -> Tensor:
    """Packs masks into words.

    Args:
        seen: bool [..., width, width]; ``seen[..., i, j]`` says whether row ``i`` sees draft token ``j``.

    Returns:
        uint16 [..., width, ``words_of(width)``]; bits past the width are 0.

    Raises:
        ValueError: not bool, or not square in its last two dimensions.
    """
    if seen.dtype != torch.bool or seen.dim() < 2 or seen.shape[-1] != seen.shape[-2]:
        raise ValueError(f"A mask is bool [..., width, width]; this is {seen.dtype} {tuple(seen.shape)}.")
    width = seen.shape[-1]
    words = words_of(width)
    bits = torch.zeros(*seen.shape[:-1], words * WORD, dtype=torch.int32, device=seen.device)
    bits[..., :width] = seen.int()
    places = 1 << torch.arange(WORD, dtype=torch.int32, device=seen.device)
    packed: Tensor = (bits.unflatten(-1, (words, WORD)) * places).sum(-1).to(torch.uint16)
    return packed


def unpack_mask(words: Tensor, width: int) -> Tensor:
    """Bool [..., width, width] of the words that `pack_mask` gives: uint16 [..., width, words].

    Raises:
        ValueError: another dtype, or a shape that does not belong to ``width``.
    """
    if words.dtype != torch.uint16 or words.shape[-2:] != (width, words_of(width)):
        raise ValueError(
            f"Packed rows of width {width} are uint16 [..., {width}, {words_of(width)}]; "
            f"these are {words.dtype} {tuple(words.shape)}."
        )
    places = torch.arange(WORD, dtype=torch.int32, device=words.device)
    bits = (words.int().unsqueeze(-1) >> places) & 1
    seen: Tensor = bits.flatten(-2)[..., :width].bool()
    return seen
