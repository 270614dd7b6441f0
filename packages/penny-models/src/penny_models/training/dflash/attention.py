"""Attention of block rows over committed tokens and their own block."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from penny_models.training.dflash.config import DraftShape
from penny_models.training.dflash.norm import RMSNorm

Rotary = tuple[Tensor, Tensor]


def rotary_table(positions: Tensor, head_dim: int, theta: float) -> Rotary:
    """Return cosines and sines [..., head_dim / 2] in float32 of rotary angles at ``positions`` [...]."""
    steps = torch.arange(0, head_dim, 2, device=positions.device) / head_dim
    angles = positions.float().unsqueeze(-1) * theta**-steps
    return angles.cos(), angles.sin()


def rotate(x: Tensor, rotary: Rotary) -> Tensor:
    """Rotate ``x`` [B, heads, rows, head_dim]: channel i pairs with channel i + head_dim / 2 (NeoX style)."""
    cos, sin = (table.unsqueeze(1) for table in rotary)
    first, second = x.float().chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1).to(x.dtype)


class BlockAttention(nn.Module):
    """Grouped-query attention with normalised queries and keys.

    The context's keys and values come straight from the fused target features: no norm of the layer, no
    convolution. So SGLang can write them to the draft's pool when tokens are committed.
    """

    def __init__(self, shape: DraftShape) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = shape.heads, shape.kv_heads, shape.head_dim
        size, queries, keys = shape.hidden_size, shape.heads * shape.head_dim, shape.kv_heads * shape.head_dim
        self.q_proj = nn.Linear(size, queries, bias=False)
        self.k_proj = nn.Linear(size, keys, bias=False)
        self.v_proj = nn.Linear(size, keys, bias=False)
        self.o_proj = nn.Linear(queries, size, bias=False)
        self.q_norm = RMSNorm(shape.head_dim, shape.eps)
        self.k_norm = RMSNorm(shape.head_dim, shape.eps)

    def _heads(self, x: Tensor, heads: int) -> Tensor:
        return torch.transpose(x.unflatten(-1, (heads, self.head_dim)), 1, 2)

    def _shared(self, x: Tensor) -> Tensor:
        group = self.heads // self.kv_heads
        return x.unsqueeze(2).expand(-1, -1, group, -1, -1).flatten(1, 2)

    def forward(
        self, rows: Tensor, context: Tensor, row_rotary: Rotary, context_rotary: Rotary, mask: Tensor
    ) -> Tensor:
        """Return [B, R, H] for ``rows`` [B, R, H] over ``context`` [B, T, H]; ``mask`` is [B, 1, R, T + R]."""
        both = torch.cat([context, rows], dim=1)
        rotary = (
            torch.cat([context_rotary[0], row_rotary[0]], dim=1),
            torch.cat([context_rotary[1], row_rotary[1]], dim=1),
        )
        query = rotate(self.q_norm(self._heads(self.q_proj(rows), self.heads)), row_rotary)
        key = rotate(self.k_norm(self._heads(self.k_proj(both), self.kv_heads)), rotary)
        value = self._heads(self.v_proj(both), self.kv_heads)
        out = F.scaled_dot_product_attention(query, self._shared(key), self._shared(value), attn_mask=mask)
        projected: Tensor = self.o_proj(out.transpose(1, 2).flatten(2))
        return projected
