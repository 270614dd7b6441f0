"""One layer of the draft: attention and MLP, each with a norm before it and a convolution around it.

Everything here is of one request: `T` context tokens, a block of `R` rows at positions `T` to `T + R - 1`.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from penny_spec.dflash.config import DraftConfig, LayerSight
from penny_spec.dflash.convolution import GroupedConvolution
from penny_spec.dflash.rotary import rotate

Rotary = tuple[Tensor, Tensor]


class RMSNorm(nn.Module):
    """`x / rms(x) * weight` over the last axis, computed in float32 at least."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        """Normalise `x` `(..., size)`; the dtype stays."""
        wide = x.to(torch.promote_types(x.dtype, torch.float32))
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return (wide * scale * self.weight).to(x.dtype)


def visible(context: int, rows: int, sight: LayerSight, device: torch.device) -> Tensor:
    """bool `(rows, context + rows)`: which keys each row of a block sees, by position."""
    keys = torch.arange(context + rows, device=device)
    back = keys[context:].unsqueeze(1) - keys
    seen = torch.ones_like(back, dtype=torch.bool)
    if sight.causal:
        seen &= back >= 0
    if sight.window is not None:
        seen &= back < sight.window
    return seen


class BlockAttention(nn.Module):
    """Grouped-query attention of block rows over the context and their own block.

    Queries and keys are normalised per head, then rotated. Keys and values of the context come straight from its
    fused features, without the layer's norm and convolution, so they can be written once, when tokens are committed.
    """

    def __init__(self, config: DraftConfig, sight: LayerSight) -> None:
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = config.heads, config.kv_heads, config.head_dim
        self.sight = sight
        size, queries, keys = config.hidden_size, self.heads * self.head_dim, self.kv_heads * self.head_dim
        self.q_proj = nn.Linear(size, queries, bias=False)
        self.k_proj = nn.Linear(size, keys, bias=False)
        self.v_proj = nn.Linear(size, keys, bias=False)
        self.o_proj = nn.Linear(queries, size, bias=False)
        self.q_norm = RMSNorm(self.head_dim, config.eps)
        self.k_norm = RMSNorm(self.head_dim, config.eps)

    def _split(self, x: Tensor) -> Tensor:
        return torch.transpose(x.unflatten(-1, (-1, self.head_dim)), 0, 1)

    def keys_values(self, rows: Tensor, rotary: Rotary) -> tuple[Tensor, Tensor]:
        """Keys and values, each `(kv_heads, N, head_dim)`, of `rows` `(N, hidden)`."""
        keys = self.k_norm(self._split(self.k_proj(rows)))
        return rotate(keys, rotary), self._split(self.v_proj(rows))

    def forward(self, rows: Tensor, rotary: Rotary, keys: Tensor, values: Tensor) -> Tensor:
        """Attend from `rows` `(R, hidden)` over the context's `keys` and `values` `(kv_heads, T, head_dim)`."""
        own_keys, own_values = self.keys_values(rows, rotary)
        query = rotate(self.q_norm(self._split(self.q_proj(rows))), rotary)
        group = self.heads // self.kv_heads
        key = torch.cat([keys, own_keys], dim=1).repeat_interleave(group, dim=0)
        value = torch.cat([values, own_values], dim=1).repeat_interleave(group, dim=0)
        mask = visible(keys.shape[1], len(rows), self.sight, rows.device)
        weights = (
            (query @ key.transpose(1, 2) * self.head_dim**-0.5).masked_fill(~mask, -torch.inf).softmax(-1)
        )
        out: Tensor = self.o_proj((weights @ value).transpose(0, 1).flatten(1))
        return out


class GatedMLP(nn.Module):
    """`down(silu(gate(x)) * up(x))`."""

    def __init__(self, config: DraftConfig) -> None:
        super().__init__()
        self.gate_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.up_proj = nn.Linear(config.hidden_size, config.intermediate_size, bias=False)
        self.down_proj = nn.Linear(config.intermediate_size, config.hidden_size, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """Run `x` `(..., hidden)`."""
        out: Tensor = self.down_proj(F.silu(self.gate_proj(x)) * self.up_proj(x))
        return out


class DraftLayer(nn.Module):
    """Runs a block through attention and MLP; a draft without convolutions has plain sublayers."""

    def __init__(self, config: DraftConfig, sight: LayerSight) -> None:
        super().__init__()
        self.input_layernorm = RMSNorm(config.hidden_size, config.eps)
        self.self_attn = BlockAttention(config, sight)
        self.post_attention_layernorm = RMSNorm(config.hidden_size, config.eps)
        self.mlp = GatedMLP(config)
        conv = (config.hidden_size, config.conv_kernel_size, config.conv_group_size)
        self.attention_conv = GroupedConvolution(*conv) if config.conv_kernel_size else None
        self.mlp_conv = GroupedConvolution(*conv) if config.conv_kernel_size else None

    def forward(self, x: Tensor, rotary: Rotary, keys: Tensor, values: Tensor) -> Tensor:
        """Run block `x` `(R, hidden)` over the context's `keys` and `values` `(kv_heads, T, head_dim)`."""

        def attend(rows: Tensor) -> Tensor:
            return self.self_attn(rows, rotary, keys, values)  # type: ignore[no-any-return]

        x = x + _inside(self.attention_conv, self.input_layernorm(x), attend)
        return x + _inside(self.mlp_conv, self.post_attention_layernorm(x), self.mlp)


def _inside(conv: GroupedConvolution | None, rows: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
    if conv is None:
        return sublayer(rows)
    rows, delta = conv.before(rows)
    return conv.after(sublayer(rows), delta)
