"""The model in training: transformers' Qwen3.5 classes and the MTP module, over whole sequences."""

import math
from dataclasses import dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import Qwen3_5Config, Qwen3_5ForConditionalGeneration
from transformers.models.qwen3_5 import modeling_qwen3_5 as family

from penny_models.training.config import model_config
from penny_models.training.gdn import chunk_gated_delta_rule
from penny_models.training.mtp import NextTokenPredictor, StepCache, second_step_mask


@dataclass(frozen=True)
class Losses:
    """Mean cross-entropy in nats: the next token, and the first and second MTP step (tokens t+2, t+3)."""

    main: Tensor
    mtp1: Tensor
    mtp2: Tensor


@dataclass(frozen=True)
class Outputs:
    """Logits [B, T, vocab] of the model and of the first and second MTP step."""

    main: Tensor
    mtp1: Tensor
    mtp2: Tensor


class TinyModel(nn.Module):
    """The checkpoint's modules and their joint forward pass over whole sequences."""

    def __init__(self) -> None:
        super().__init__()
        config = Qwen3_5Config(**model_config())
        self.base = Qwen3_5ForConditionalGeneration._from_config(
            config, attn_implementation="sdpa", dtype=torch.float32
        )
        text = self.base.config.text_config
        self.mtp = NextTokenPredictor(text)
        initialise(self)

    @property
    def text(self) -> Any:
        """Transformers' text model: embedding, layers, final norm and rotary table."""
        return self.base.model.language_model

    def _rotary(self, x: Tensor, first: int, length: int) -> tuple[Tensor, Tensor]:
        positions = torch.arange(first, first + length, device=x.device).expand(3, 1, -1)
        return self.text.rotary_emb(x, positions)  # type: ignore[no-any-return]

    def _embed(self, tokens: Tensor) -> Tensor:
        # index_select, because its gradient can be captured in a CUDA graph without waiting for the device.
        table = self.text.embed_tokens.weight
        return table.index_select(0, tokens.flatten()).view(*tokens.shape, -1)  # type: ignore[no-any-return]

    def hidden(self, tokens: Tensor) -> Tensor:
        """Return the final normalised hidden states [B, T, H] of token ids [B, T]."""
        x = self._embed(tokens)
        rotary = self._rotary(x, 0, tokens.shape[1])
        for layer in self.text.layers:
            x = layer(x, position_embeddings=rotary, attention_mask=None)
        return self.text.norm(x)  # type: ignore[no-any-return]

    def forward(self, tokens: Tensor) -> Outputs:
        """Run ``tokens`` [B, T + 2]: T positions, and the two tokens that the MTP steps look ahead."""
        length = tokens.shape[1] - 2
        hidden = self.hidden(tokens[:, :length])
        embedded = self._embed(tokens[:, 1:])
        cache = StepCache()
        first = self.mtp(embedded[:, :-1], hidden, self._rotary(hidden, 0, length), cache, None)
        mask = second_step_mask(length, tokens.device)
        second = self.mtp(embedded[:, 1:], first, self._rotary(hidden, 1, length), cache, mask)
        head = self.base.lm_head
        return Outputs(head(hidden), head(first), head(second))

    def losses(self, window: Tensor) -> Losses:
        """Return the losses of ``window`` [B, T + 3]: the inputs and the last target."""
        out = self(window[:, :-1])
        length = window.shape[1] - 3

        def loss(logits: Tensor, ahead: int) -> Tensor:
            return F.cross_entropy(logits.flatten(0, 1).float(), window[:, ahead : ahead + length].flatten())

        return Losses(loss(out.main, 1), loss(out.mtp1, 2), loss(out.mtp2, 3))


def use_training_kernels() -> None:
    """Let transformers' gated-delta-net layers run this package's chunked form, in this process."""
    family.torch_chunk_gated_delta_rule = chunk_gated_delta_rule


@torch.no_grad()
def initialise(model: TinyModel) -> None:
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
