"""Paged attention over the KV pool: new tokens after a cached prefix (extend), and one token each (decode).

Requests of similar length run as one padded call of ``scaled_dot_product_attention`` (float32 accumulation).
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from penny_kernels.cpu.state_slots import store_slots


def _refuse(op: str, **unsupported: bool) -> None:
    found = [name for name, present in unsupported.items() if present]
    if found:
        raise NotImplementedError(
            f"{op} serves causal self-attention over an unscaled KV pool; found {', '.join(found)}."
        )


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
        req_to_token: [request slots, tokens], pool slot of each token; ``req_pool_indices``: [requests], its rows.
        seq_lens: [requests], tokens to attend to, the new one included.

    Raises:
        NotImplementedError: for scales, logit caps, cross attention, sliding windows or sinks.
    """
    _refuse(
        "decode_attention_cpu",
        k_scale=k_scale != 1.0,
        v_scale=v_scale != 1.0,
        logit_cap=logit_cap > 0,
        is_cross_attn=is_cross_attn,
        sliding_window=sliding_window > 0,
        sinks=sinks is not None,
    )
    if key is not None and value is not None:
        store_slots(k_buffer, loc.tolist(), key.view(-1, *k_buffer.shape[1:]))
        store_slots(v_buffer, loc.tolist(), value.view(-1, *v_buffer.shape[1:]))
    kv_heads = k_buffer.shape[1]
    requests, heads, dim = query.shape
    lengths = seq_lens.tolist()
    longest = max(lengths)
    mask = None
    if requests == 1:
        flat = req_to_token[int(req_pool_indices), :longest]
    else:
        # Padding repeats the request's first token: what the table holds past the end may be anything.
        real = torch.arange(longest) < seq_lens.unsqueeze(1)
        rows = req_to_token[:, :longest].index_select(0, req_pool_indices)
        flat = rows.where(real, rows[:, :1]).view(-1)
        mask = real.view(requests, 1, 1, longest)
    k = k_buffer.index_select(0, flat).view(requests, longest, kv_heads, dim).transpose(1, 2)
    v = v_buffer.index_select(0, flat).view(requests, longest, kv_heads, -1).transpose(1, 2)
    # The query heads of one KV head stand where more queries would: no repeated keys.
    q = query.view(requests, kv_heads, heads // kv_heads, dim)
    out = F.scaled_dot_product_attention(q, k.to(q.dtype), v.to(q.dtype), mask, scale=sm_scale)
    output.copy_(out.reshape(output.shape))


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
        k_extend, v_extend: [tokens, kv_heads * dim] or by head; None to read the new tokens from the pool as well.
        k_buffer, v_buffer, req_to_token, req_pool_indices: as in decode.
        seq_lens: [requests], prefix and new tokens; ``extend_seq_lens``: [requests], new tokens alone.
        extend_start_loc: [requests], each request's first row in ``q_extend``.
        tree_mask: flat [requests, n, n] bool, which draft token sees which, every request having n new tokens.
        is_causal: False lets all new tokens of a request see each other (DFlash blocks).

    Raises:
        NotImplementedError: as decode.
    """
    _refuse(
        "extend_attention_cpu",
        k_scale=k_scale != 1.0,
        v_scale=v_scale != 1.0,
        logit_cap=logit_cap > 0,
        is_cross_attn=is_cross_attn,
        sliding_window=sliding_window > 0,
        sinks=sinks is not None,
    )
    totals, news = seq_lens.tolist(), extend_seq_lens.tolist()
    kv = [None if x is None else x.view(-1, *pool.shape[1:]) for x, pool in ((k_extend, k_buffer), (v_extend, v_buffer))]
    if tree_mask is not None:
        tree_mask = tree_mask.view(len(totals), news[0], news[0]).to(torch.bool)
    for group in _similar(totals, news):
        pick = torch.tensor(group)
        _extend_group(
            q_extend,
            kv[0],
            kv[1],
            o_extend,
            k_buffer,
            v_buffer,
            req_to_token[req_pool_indices[pick], : max(totals[i] for i in group)],
            torch.tensor([totals[i] for i in group]),
            torch.tensor([news[i] for i in group]),
            extend_start_loc[pick].to(torch.int64),
            sm_scale,
            None if tree_mask is None else tree_mask[pick],
            is_causal,
        )


def _similar(totals: list[int], news: list[int]) -> list[list[int]]:
    """Split the requests so that padding at most about doubles a group's work."""
    groups: list[list[int]] = []
    for i in sorted((i for i in range(len(totals)) if news[i] > 0), key=lambda i: (-news[i], -totals[i])):
        if groups:
            group = [*groups[-1], i]
            padded = len(group) * news[group[0]] * max(totals[j] for j in group)
            if padded <= 2 * sum(news[j] * totals[j] for j in group):
                groups[-1] = group
                continue
        groups.append([i])
    return groups


def _extend_group(
    q_extend: Tensor,
    k_extend: Tensor | None,
    v_extend: Tensor | None,
    o_extend: Tensor,
    k_buffer: Tensor,
    v_buffer: Tensor,
    rows: Tensor,
    totals: Tensor,
    news: Tensor,
    starts: Tensor,
    sm_scale: float,
    tree: Tensor | None,
    is_causal: bool,
) -> None:
    requests, longest = rows.shape
    most = int(news.max())
    position = torch.arange(longest)
    step = torch.arange(most)
    prefix = (totals - news).unsqueeze(1)
    real = position < totals.unsqueeze(1)
    is_new = step < news.unsqueeze(1)
    source = (starts.unsqueeze(1) + step.where(is_new, 0)).view(-1)
    flat = rows.masked_fill(~real, 0).view(-1)
    owner = torch.arange(requests).unsqueeze(1).expand_as(is_new)[is_new]
    target = (prefix + step)[is_new]
    gathered = []
    for new, pool in ((k_extend, k_buffer), (v_extend, v_buffer)):
        full = pool.index_select(0, flat).view(requests, longest, *pool.shape[1:]).to(q_extend.dtype)
        if new is not None:
            full[owner, target] = new[source.view(requests, most)[is_new]]
        if requests > 1:
            full.masked_fill_(~real.view(requests, longest, 1, 1), 0)
        gathered.append(full.transpose(1, 2))
    mask = real.unsqueeze(1)
    if tree is not None:
        mask = (position < prefix).unsqueeze(1).repeat(1, most, 1)
        mask.scatter_(2, (prefix + step).unsqueeze(1).expand_as(tree), tree)
    elif is_causal:
        mask = position <= (prefix + step).unsqueeze(2)
    q = q_extend[source].view(requests, most, *q_extend.shape[1:]).transpose(1, 2)
    out = F.scaled_dot_product_attention(
        q, gathered[0], gathered[1], mask.unsqueeze(1), scale=sm_scale, enable_gqa=True
    )
    o_extend[source.view(requests, most)[is_new]] = out.transpose(1, 2)[is_new].to(o_extend.dtype)
