"""The NEXTN (MTP) module, built from transformers' decoder layer: transformers itself has none."""

import copy
from typing import Any

import torch
from torch import Tensor, nn
from transformers.models.qwen3_5 import modeling_qwen3_5 as family


class StepCache:
    """Keeps the keys and values of earlier draft steps so that a later one attends to them."""

    def __init__(self) -> None:
        self.key: Tensor | None = None
        self.value: Tensor | None = None

    def update(self, key: Tensor, value: Tensor, layer_idx: int, *_: Any) -> tuple[Tensor, Tensor]:
        if self.key is None or self.value is None:
            self.key, self.value = key, value
        else:
            self.key, self.value = torch.cat([self.key, key], dim=2), torch.cat([self.value, value], dim=2)
        return self.key, self.value


class NextTokenPredictor(nn.Module):
    """One NEXTN (MTP) layer in the form that SGLang's ``qwen3_5_mtp.py`` reads as ``mtp.*``."""

    def __init__(self, config: Any) -> None:
        super().__init__()
        config = copy.deepcopy(config)
        config.num_hidden_layers, config.layer_types = 1, ["full_attention"]
        size, eps = config.hidden_size, config.rms_norm_eps
        self.fc = nn.Linear(2 * size, size, bias=False)
        self.pre_fc_norm_embedding = family.Qwen3_5RMSNorm(size, eps)
        self.pre_fc_norm_hidden = family.Qwen3_5RMSNorm(size, eps)
        self.layers = nn.ModuleList([family.Qwen3_5DecoderLayer(config, 0)])
        self.norm = family.Qwen3_5RMSNorm(size, eps)

    def forward(
        self,
        embedded: Tensor,
        hidden: Tensor,
        rotary: tuple[Tensor, Tensor],
        cache: StepCache,
        mask: Tensor | None,
    ) -> Tensor:
        """Combine the next token's embedding with a hidden state, both [B, T, H]; return the next hidden."""
        joined = torch.cat([self.pre_fc_norm_embedding(embedded), self.pre_fc_norm_hidden(hidden)], dim=-1)
        layer = self.layers[0](
            self.fc(joined), position_embeddings=rotary, attention_mask=mask, past_key_values=cache
        )
        return self.norm(layer)  # type: ignore[no-any-return]
