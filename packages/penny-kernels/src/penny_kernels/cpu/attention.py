"""Paged attention over the KV pool: new tokens after a cached prefix (extend), and one token each (decode).

Requests of similar length run as one padded call of ``scaled_dot_product_attention`` (float32 accumulation).
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from penny_kernels.cpu.operations import operation
from penny_kernels.cpu.state_slots import store_slots


def _refuse(k_scale: float, v_scale: float, logit_cap: float, cross: bool, sinks: Tensor | None) -> None:
    if (k_scale, v_scale) != (1.0, 1.0) or logit_cap > 0 or cross or sinks is not None:
        raise NotImplementedError(
            f"CPU attention serves self-attention over an unscaled KV pool; found k_scale={k_scale}, "
            f"v_scale={v_scale}, logit_cap={logit_cap}, is_cross_attn={cross}, sinks={sinks is not None}."
        )


@operation("torch.ops.sgl_kernel")
def decode_attention_cpu(
    query: Tensor,
    k_buffer: Tensor,
    v_buffer: Tensor,
    k_scale: float,
    v_scale: float,
    output: Tensor,
    key: Tensor | None,
    value: Tensor | None,
    loc: Tensor,
    attn_logits: Tensor,
    req_to_token: Tensor,
    req_pool_indices: Tensor,
    seq_lens: Tensor,
    sm_scale: float,
    logit_cap: float,
    is_cross_attn: bool,
    sliding_window: int,
    encoder_lens: Tensor | None,
    sinks: Tensor | None,
) -> None:
    """Store each request's new key and value in the pool, then attend from its one query.

    Args:
        query: [requests, heads, dim]; ``output``: [requests, heads, v_dim], written.
        k_buffer, v_buffer: the pool, [slots, kv_heads, dim or v_dim].
        key, value: [requests, kv_heads * dim] or the same by head; None when they are in the pool already.
        loc: [requests], pool slots of the new tokens; ``attn_logits`` is not used.
        req_to_token: [request slots, tokens], pool slot of each token; ``req_pool_indices``: [requests], its
            rows.
        seq_lens: [requests], tokens to attend to, the new one included.
        sliding_window: only the last this many of them; 0 is all.

    Raises:
        NotImplementedError: for scales, logit caps, cross attention or sinks.
    """
    _refuse(k_scale, v_scale, logit_cap, is_cross_attn, sinks)
    if key is not None and value is not None:
        store_slots(k_buffer, loc.tolist(), key.view(-1, *k_buffer.shape[1:]))
        store_slots(v_buffer, loc.tolist(), value.view(-1, *v_buffer.shape[1:]))
    kv_heads = k_buffer.shape[1]
    requests, heads, dim = query.shape
    longest = int(seq_lens.max())
    mask = None
    if requests == 1 and sliding_window <= 0:
        flat = req_to_token[int(req_pool_indices), :longest]
    else:
        # Padding repeats the request's first token: what the table holds past the end may be anything.
        real = torch.arange(longest) < seq_lens.unsqueeze(1)
        rows = req_to_token[:, :longest].index_select(0, req_pool_indices)
        flat = rows.where(real, rows[:, :1]).view(-1)
        if sliding_window > 0:
            real &= torch.arange(longest) >= seq_lens.unsqueeze(1) - sliding_window
        mask = real.view(requests, 1, 1, longest)
    k = k_buffer.index_select(0, flat).view(requests, longest, kv_heads, dim).transpose(1, 2)
    v = v_buffer.index_select(0, flat).view(requests, longest, kv_heads, -1).transpose(1, 2)
    # The query heads of one KV head stand where more queries would: no repeated keys.
    q = query.view(requests, kv_heads, heads // kv_heads, dim)
    out = F.scaled_dot_product_attention(q, k.to(q.dtype), v.to(q.dtype), mask, scale=sm_scale)
    output.copy_(out.reshape(output.shape))


@operation("torch.ops.sgl_kernel")
def extend_attention_cpu(
    q_extend: Tensor,
    k_extend: Tensor | None,
    v_extend: Tensor | None,
    o_extend: Tensor,
    k_buffer: Tensor,
    v_buffer: Tensor,
    k_scale: float,
    v_scale: float,
    req_to_token: Tensor,
    req_pool_indices: Tensor,
    seq_lens: Tensor,
    extend_seq_lens: Tensor,
    extend_start_loc: Tensor,
    max_len_extend: int,
    sm_scale: float,
    logit_cap: float,
    is_cross_attn: bool,
    sliding_window: int,
    encoder_lens: Tensor | None,
    sinks: Tensor | None,
    tree_mask: Tensor | None,
    is_causal: bool,
) -> None:
    """Attend from each request's new tokens to its cached prefix and to its new tokens.

    Args:
        q_extend: [tokens, heads, dim]; ``o_extend``: [tokens, heads, v_dim], written.
        k_extend, v_extend: [tokens, kv_heads * dim] or by head; None to read the new tokens from the pool as
            well.
        k_buffer, v_buffer, req_to_token, req_pool_indices: as in decode.
        seq_lens: [requests], prefix and new tokens; ``extend_seq_lens``: [requests], new tokens alone.
        extend_start_loc: [requests], each request's first row in ``q_extend``.
        tree_mask: flat [requests, n, n] bool, which draft token sees which, every request having n new
            tokens.
        is_causal: False lets all new tokens of a request see each other (DFlash blocks).
        sliding_window: a token sees none that is this many before it or more; 0 is no limit.

    Raises:
        NotImplementedError: as decode.
    """
    _refuse(k_scale, v_scale, logit_cap, is_cross_attn, sinks)
    totals, news, starts = seq_lens.tolist(), extend_seq_lens.tolist(), extend_start_loc.tolist()
    if tree_mask is not None:
        tree_mask = tree_mask.view(len(totals), news[0], news[0]).to(torch.bool)
    for group in _similar(totals, news):
        span = max(totals[i] for i in group)
        _extend_group(
            _Group([totals[i] for i in group], [news[i] for i in group], [starts[i] for i in group]),
            q_extend,
            o_extend,
            ((k_extend, k_buffer), (v_extend, v_buffer)),
            req_to_token[:, :span].index_select(0, req_pool_indices[group]),
            sm_scale,
            None if tree_mask is None else tree_mask[group],
            is_causal,
            sliding_window,
        )


def _similar(totals: list[int], news: list[int]) -> list[list[int]]:
    """Split the requests so that padding at most doubles a group's work."""

    def fits(group: list[int]) -> bool:
        padded = len(group) * max(news[i] for i in group) * max(totals[i] for i in group)
        return padded <= 2 * sum(news[i] * totals[i] for i in group)

    rest = [i for i in range(len(totals)) if news[i] > 0]
    if not rest or fits(rest):
        return [rest] if rest else []
    groups: list[list[int]] = []
    for i in sorted(rest, key=lambda i: (-news[i], -totals[i])):
        if groups and fits([*groups[-1], i]):
            groups[-1].append(i)
        else:
            groups.append([i])
    return groups


@dataclass(frozen=True)
class _Group:
    """Requests that run as one padded batch: tokens in all, new ones, and the first new one's row."""

    totals: list[int]
    news: list[int]
    starts: list[int]


def _extend_group(
    group: _Group,
    q_extend: Tensor,
    o_extend: Tensor,
    sides: tuple[tuple[Tensor | None, Tensor], tuple[Tensor | None, Tensor]],
    rows: Tensor,
    sm_scale: float,
    tree: Tensor | None,
    is_causal: bool,
    window: int,
) -> None:
    requests, span = rows.shape
    most = max(group.news)
    totals, news = torch.tensor(group.totals), torch.tensor(group.news)
    step = torch.arange(most)
    prefix = (totals - news).unsqueeze(1)
    at = torch.arange(requests).unsqueeze(1) * span + prefix + step
    tokens = torch.tensor(group.starts).unsqueeze(1) + step
    is_new = None if min(group.news) == most else step < news.unsqueeze(1)
    if is_new is not None:
        at, tokens = at[is_new], tokens[is_new]
    at, tokens = at.view(-1), tokens.view(-1)

    real = torch.arange(span) < totals.unsqueeze(1)
    # Padding repeats the request's first token: what the table holds past the end may be anything.
    flat = rows.where(real, rows[:, :1]).view(-1)
    gathered = []
    for new, pool in sides:
        full = pool.index_select(0, flat)
        if new is not None:
            full.index_copy_(0, at, new.view(-1, *pool.shape[1:]).index_select(0, tokens).to(pool.dtype))
            if not bool(prefix.all()):
                full[~real.view(-1)] = 0  # that first token may not be in the pool yet
        gathered.append(full.view(requests, span, *pool.shape[1:]).transpose(1, 2).to(q_extend.dtype))

    plain = is_causal and tree is None and window <= 0 and requests == 1 and group.news == group.totals
    mask = None if plain else real.unsqueeze(1)
    if tree is not None:
        mask = (torch.arange(span) < prefix).unsqueeze(1).repeat(1, most, 1)
        mask.scatter_(2, (prefix + step).unsqueeze(1).expand_as(tree), tree)
    elif is_causal and not plain:
        mask = torch.arange(span) <= (prefix + step).unsqueeze(2)
    if window > 0 and mask is not None:
        mask = mask & (torch.arange(span) > (prefix + step).unsqueeze(2) - window)
    q = q_extend.index_select(0, tokens)
    if is_new is not None:
        q = q.new_zeros(requests, most, *q.shape[1:]).masked_scatter_(is_new[..., None, None], q)
    out = F.scaled_dot_product_attention(
        q.view(requests, most, *q_extend.shape[1:]).transpose(1, 2),
        gathered[0],
        gathered[1],
        None if mask is None else mask.unsqueeze(1),
        scale=sm_scale,
        is_causal=plain,
        enable_gqa=True,
    ).transpose(1, 2)
    o_extend.index_copy_(0, tokens, out.flatten(0, 1) if is_new is None else out[is_new])
