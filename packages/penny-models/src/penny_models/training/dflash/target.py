"""The frozen target: its hidden states over whole sequences, its embedding and its head."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import Qwen3_5ForConditionalGeneration
from transformers.models.qwen3_5 import modeling_qwen3_5 as family

from penny_models.training.gdn import CHUNK, chunk_gated_delta_rule


@dataclass(frozen=True)
class Seen:
    """What the target computes for a sequence: features [B, T, K * H] and its final hidden states [B, T, H]."""

    features: Tensor
    hidden: Tensor


@contextmanager
def _training_rule(length: int) -> Iterator[None]:
    """Let gated-delta-net layers run this package's chunked rule where it can: no state, whole chunks."""
    stock = family.torch_chunk_gated_delta_rule
    if length % CHUNK == 0:
        family.torch_chunk_gated_delta_rule = chunk_gated_delta_rule
    try:
        yield
    finally:
        family.torch_chunk_gated_delta_rule = stock


class Target:
    """A checkpoint in transformers' class, never trained. ``model`` generates; ``see`` looks at whole sequences."""

    def __init__(self, folder: Path, layer_ids: tuple[int, ...], device: torch.device) -> None:
        dtype = torch.bfloat16 if device.type == "cuda" else torch.float32
        loaded: Any = Qwen3_5ForConditionalGeneration.from_pretrained(
            folder, dtype=dtype, attn_implementation="sdpa"
        )
        self.model = loaded.to(device).eval().requires_grad_(False)
        self.text = self.model.model.language_model
        self.layer_ids = layer_ids

    @property
    def head(self) -> Tensor:
        """The head's weight [vocab, H]."""
        weight: Tensor = self.model.lm_head.weight
        return weight

    @property
    def final_norm(self) -> Tensor:
        """What the normalised hidden states are multiplied by before the head [H]: the family adds 1."""
        weight: Tensor = 1.0 + self.text.norm.weight.float()
        return weight

    def embed(self, tokens: Tensor) -> Tensor:
        """Return the embeddings [..., H] of token ids [...]."""
        return F.embedding(tokens, self.text.embed_tokens.weight)

    @torch.no_grad()
    def see(self, tokens: Tensor) -> Seen:
        """Run token ids [B, T] from position 0 and keep what a draft sees.

        A feature is the residual stream after a layer, before any norm: what SGLang captures as the next layer
        reads it (``layers/layer_boundary/stage.py``, ``capture_gathered``).
        """
        x = self.embed(tokens)
        positions = torch.arange(tokens.shape[1], device=tokens.device).expand(3, 1, -1)
        rotary = self.text.rotary_emb(x, positions)
        features: list[Tensor] = []
        with _training_rule(tokens.shape[1]):
            for index, layer in enumerate(self.text.layers):
                x = layer(x, position_embeddings=rotary, attention_mask=None)
                if index in self.layer_ids:
                    features.append(x)
        return Seen(torch.cat(features, dim=-1), self.text.norm(x))
