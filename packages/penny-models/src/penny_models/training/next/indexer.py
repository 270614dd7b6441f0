"""The QSA indexer over whole sequences, without a loop over queries; and its training.

The selection is transformers' own (``Qwen4ExpTextQSAIndexer``): a query scores the complete blocks of keys
before it, takes the best ``budget / ratio`` of them, and always sees the tokens after the last complete block.
"""

import math
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from transformers.models.qwen4_exp import modeling_qwen4_exp as family

from penny_models.training.base import Rotary


def block_scores(indexer: Any, x: Tensor, rotary: Rotary) -> Tensor:
    """Return the scores [B, T, T // ratio] of the blocks; a block not complete before its query has -inf."""
    batch, length, _ = x.shape
    ratio, width = indexer.compress_ratio, indexer.index_head_dim
    blocks = length // ratio
    query, raw = indexer.index_qk_proj(x).split([indexer.index_n_heads * width, width], dim=-1)
    query = indexer.q_layernorm(query.view(batch, length, -1, width))
    query = family.apply_rotary_pos_emb(query, cos=rotary[0], sin=rotary[1], unsqueeze_dim=2)
    key = raw[:, : blocks * ratio].view(batch, blocks, ratio, width).float().mean(2).to(raw.dtype)
    starts = [table[:, : blocks * ratio : ratio] for table in rotary]
    key = family.apply_rotary_pos_emb(
        indexer.k_layernorm(key).unsqueeze(2), cos=starts[0], sin=starts[1], unsqueeze_dim=2
    ).squeeze(2)
    with torch.autocast(x.device.type, enabled=False):
        products = torch.einsum("btnd,bkd->btnk", query.float(), key.float())
    scores = products.relu().sum(2) / math.sqrt(width)
    return scores.masked_fill(~_complete(length, ratio, x.device), -math.inf)


def _complete(length: int, ratio: int, device: torch.device) -> Tensor:
    """Return [T, blocks]: whether the block ends at or before the query."""
    ends = torch.arange(length // ratio, device=device) * ratio + ratio - 1
    return ends <= torch.arange(length, device=device)[:, None]


def selected_tokens(scores: Tensor, length: int, ratio: int, top_blocks: int) -> Tensor:
    """Return the mask [B, 1, T, T] of the tokens that each query attends to."""
    best = scores.topk(min(top_blocks, scores.shape[-1]), dim=-1).indices
    chosen = torch.zeros_like(scores, dtype=torch.bool).scatter(-1, best, True) & scores.isfinite()
    tokens = chosen.repeat_interleave(ratio, dim=-1)
    tokens = torch.nn.functional.pad(tokens, (0, length - tokens.shape[-1]))
    place = torch.arange(length, device=scores.device)
    tail = (place[None, :] <= place[:, None]) & (place[None, :] >= (place[:, None] + 1) // ratio * ratio)
    return (tokens | tail)[:, None]


def indexer_loss(scores: Tensor, query: Tensor, key: Tensor, scaling: float, ratio: int) -> Tensor:
    """Return the mean divergence (nats) of the indexer's distribution over blocks from the attention's.

    The target is the attention probability of each block, summed over its tokens and averaged over heads,
    among complete blocks; the indexer's scores are its logits. Only the scores get a gradient. Queries with
    fewer than two complete blocks have no choice and do not count. The idea is that of DeepSeek-V3.2's
    report: warm the indexer up against dense attention.

    Args:
        scores: [B, T, blocks] from ``block_scores``.
        query: [B, N, T, D] and ``key`` [B, K, T, D] of the attention layer, rotated.
        scaling: factor of the attention's products.
        ratio: tokens in a block.
    """
    first = 2 * ratio - 1
    length, scores = query.shape[2], scores[:, first:]
    with torch.no_grad(), torch.autocast(query.device.type, enabled=False):
        groups = query.shape[1] // key.shape[1]
        products = query.float() @ key.repeat_interleave(groups, dim=1).float().transpose(-1, -2) * scaling
        causal = torch.ones(length, length, dtype=torch.bool, device=query.device).tril()
        chances = products.masked_fill(~causal, -math.inf).softmax(-1).mean(1)[:, first:]
        blocks = chances[..., : length // ratio * ratio].unflatten(-1, (-1, ratio)).sum(-1)
        blocks = blocks * scores.isfinite()
        target = blocks / blocks.sum(-1, keepdim=True).clamp_min(1e-9)
    logs = scores.float().log_softmax(-1).masked_fill(~scores.isfinite(), 0.0)
    divergence: Tensor = (target * (target.clamp_min(1e-9).log() - logs)).sum(-1)
    return divergence.mean()


def within_budget(stock: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Return transformers' indexer without its loop where it selects all: up to the budget. ``stock`` does the rest.

    Within the budget nothing is kept in the cache, so a cached sequence may not grow beyond it.
    """

    def forward(
        self: Any, hidden: Tensor, rotary: Rotary, mask: Tensor, past_key_values: Any = None, **options: Any
    ) -> Tensor:
        if mask.shape[-1] // self.compress_ratio <= self.block_topk:
            return mask
        if past_key_values is not None:
            raise ValueError(
                f"A cached sequence of {mask.shape[-1]} tokens is beyond the indexer's budget; shorten prompt and "
                "continuation."
            )
        return stock(self, hidden, rotary, mask, past_key_values, **options)

    return forward
