"""The truth: softmax attention of a block of draft tokens, in the precision that is asked for."""

from __future__ import annotations

import torch
from torch import Tensor


def verify_attention(
    query: Tensor,
    key_pages: Tensor,
    value_pages: Tensor,
    page_table: Tensor,
    lengths: Tensor,
    seen: Tensor,
    scale: float,
    dtype: torch.dtype = torch.float64,
) -> Tensor:
    """Attention of each request's block over its cache, whose last ``width`` tokens are the block itself.

    Args:
        query: [requests, width, heads, dim].
        key_pages: [pages, page, kv_heads, dim], any dtype; values that are read are taken as they are stored.
        value_pages: like ``key_pages``.
        page_table: int [requests, n]; the pages of each request in order, more than needed is ignored.
        lengths: int [requests], tokens in each request's cache, the block included.
        seen: bool [width, width] or [requests, width, width]; which draft tokens each row sees. All before are seen.
        scale: factor of the scores.
        dtype: what is computed in, and the result's dtype.

    Returns:
        [requests, width, heads, dim].

    Raises:
        ValueError: a request shorter than its block, or heads that are no multiple of the cache's.
    """
    requests, width, heads, dim = query.shape
    page, kv_heads = key_pages.shape[1:3]
    if heads % kv_heads:
        raise ValueError(f"{heads} query heads are no multiple of {kv_heads} key heads.")
    if int(lengths.min()) < width:
        raise ValueError(f"A cache of {int(lengths.min())} tokens does not hold a block of {width}.")
    seen = seen.expand(requests, width, width)
    out = torch.empty(requests, width, heads, dim, dtype=dtype, device=query.device)
    for index, length in enumerate(lengths.tolist()):
        pages = page_table[index, : -(-length // page)].long()
        keys = key_pages[pages].flatten(0, 1)[:length].to(dtype)  # [length, kv_heads, dim]
        values = value_pages[pages].flatten(0, 1)[:length].to(dtype)
        grouped = query[index].to(dtype).unflatten(1, (kv_heads, heads // kv_heads))
        scores = torch.einsum("whgd,lhd->hgwl", grouped, keys) * scale
        hidden = ~seen[index]
        scores[..., length - width :].masked_fill_(hidden, float("-inf"))
        out[index] = torch.einsum("hgwl,lhd->whgd", scores.softmax(-1), values).flatten(1, 2)
    return out
