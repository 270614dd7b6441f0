"""The draft's weights as a module; its parameters have the names of a DFlash2 checkpoint."""

from dataclasses import dataclass
from typing import cast

import torch
from torch import Tensor, nn

from penny_spec.dflash.config import DraftConfig
from penny_spec.dflash.layers import DraftLayer, RMSNorm
from penny_spec.dflash.rotary import rotary_table
from penny_spec.dflash.selector import CandidateSelector


@dataclass(frozen=True, eq=False)
class DraftContext:
    """The draft's side of a request's committed tokens.

    Attributes:
        keys: for each draft layer `(kv_heads, T, head_dim)`, normalised and rotated.
        values: for each draft layer `(kv_heads, T, head_dim)`.
    """

    keys: tuple[Tensor, ...]
    values: tuple[Tensor, ...]

    @property
    def length(self) -> int:
        """`T`: committed tokens. The anchor of the next block is at this position."""
        return self.keys[0].shape[1]


class DraftModel(nn.Module):
    """From the target's hidden states to the hidden states of a block."""

    def __init__(self, config: DraftConfig) -> None:
        super().__init__()
        self.config = config
        size = config.hidden_size
        self.fc = nn.Linear(config.feature_count * size, size, bias=False)
        self.hidden_norm = RMSNorm(size, config.eps)
        self.layers = nn.ModuleList([DraftLayer(config, sight) for sight in config.sights])
        self.norm = RMSNorm(size, config.eps)
        self.candidate_selector = CandidateSelector(size, config.vocab_size, config.selector_rank)

    def empty_context(self) -> DraftContext:
        """A context of no tokens."""
        shape = (self.config.kv_heads, 0, self.config.head_dim)
        none = tuple(self.norm.weight.new_zeros(shape) for _ in self.layers)
        return DraftContext(none, none)

    def extend(self, context: DraftContext, features: Tensor) -> DraftContext:
        """Commit `N` more tokens: fuse their `features` `(N, K * hidden)`, project keys and values of each layer."""
        fused = self.hidden_norm(self.fc(features))
        rotary = self._rotary(context.length, len(features))
        new = [layer.self_attn.keys_values(fused, rotary) for layer in self._layers()]
        return DraftContext(
            tuple(torch.cat([old, k], dim=1) for old, (k, _) in zip(context.keys, new, strict=True)),
            tuple(torch.cat([old, v], dim=1) for old, (_, v) in zip(context.values, new, strict=True)),
        )

    def forward(self, context: DraftContext, embedded: Tensor) -> Tensor:
        """Final normalised hidden states `(R, hidden)` of a block that starts from `embedded` `(R, hidden)`."""
        rotary = self._rotary(context.length, len(embedded))
        x = embedded
        for layer, keys, values in zip(self._layers(), context.keys, context.values, strict=True):
            x = layer(x, rotary, keys, values)
        hidden: Tensor = self.norm(x)
        return hidden

    def _layers(self) -> list[DraftLayer]:
        return [cast(DraftLayer, layer) for layer in self.layers]

    def _rotary(self, start: int, count: int) -> tuple[Tensor, Tensor]:
        weight = self.norm.weight
        positions = torch.arange(start, start + count, device=weight.device)
        wide = torch.promote_types(weight.dtype, torch.float32)
        cos, sin = rotary_table(self.config.rope, positions, self.config.head_dim, wide)
        return cos.to(weight.dtype), sin.to(weight.dtype)
