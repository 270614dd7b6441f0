"""``tiny-27b`` in training: transformers' Qwen3.5 classes and the MTP module."""

import math
from typing import Any

import torch
from torch import Tensor
from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration
from transformers.models.qwen3_5 import modeling_qwen3_5 as family

from penny_models.training.base import DraftingModel, Rotary
from penny_models.training.dense.config import model_config
from penny_models.training.dense.mtp import NextTokenPredictor, StepCache
from penny_models.training.gdn import with_state


class TinyDense(DraftingModel):
    """The checkpoint's modules; its features are the final normalised hidden states."""

    def __init__(self) -> None:
        super().__init__()
        config = Qwen3_5Config(**model_config())
        self.base = Qwen3_5ForConditionalGeneration._from_config(
            config, attn_implementation="sdpa", dtype=torch.float32
        )
        self.mtp = NextTokenPredictor(self.base.config.text_config)
        initialise(self)

    def features(self, tokens: Tensor, record: Any = None) -> Tensor:
        """Return the final normalised hidden states [B, T, H] of token ids [B, T]."""
        x = self.embed(tokens)
        rotary = self.rotary(x, 0, tokens.shape[1])
        for layer in self.text.layers:
            x = layer(x, position_embeddings=rotary, attention_mask=None)
        return self.text.norm(x)  # type: ignore[no-any-return]

    def hidden(self, features: Tensor) -> Tensor:
        """Return ``features``: they are the hidden states."""
        return features

    def new_past(self) -> StepCache:
        """Return an empty cache of the MTP layer."""
        return StepCache()

    def draft_step(
        self, embedded: Tensor, features: Tensor, rotary: Rotary, mask: Tensor | None, past: Any, record: Any
    ) -> tuple[Tensor, Tensor]:
        """Run the MTP module; its output is both the head's input and the next step's."""
        out = self.mtp(embedded, features, rotary, past, mask)
        return out, out


def use_training_kernels() -> None:
    """Let transformers' gated-delta-net layers run this package's chunked form, in this process."""
    family.torch_chunk_gated_delta_rule = with_state(family.torch_chunk_gated_delta_rule)


@torch.no_grad()
def initialise(model: TinyDense) -> None:
    """Set the starting weights; the seed is the caller's.

    Output projections start at zero, so that every layer starts as the identity. The decay starts slow
    (dt log-uniform in [0.001, 0.1], as in Mamba), because two heads drawn by transformers' rule may
    both forget at once.
    """
    for name, parameter in model.named_parameters():
        if name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight")):
            parameter.zero_()
        elif name.endswith("conv1d.weight"):
            parameter.uniform_(-0.5, 0.5)
        elif name.endswith("A_log"):
            parameter.uniform_(1.0, 16.0).log_()
        elif name.endswith("dt_bias"):
            steps = torch.empty_like(parameter).uniform_(math.log(1e-3), math.log(1e-1)).exp()
            parameter.copy_(steps + torch.log(-torch.expm1(-steps)))
        elif "embed_tokens" in name:
            parameter.normal_(std=0.1)
        elif parameter.ndim == 2:
            parameter.normal_(std=parameter.shape[1] ** -0.5 * 0.5)
