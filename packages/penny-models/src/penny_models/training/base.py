"""What every tiny model in training has: a language model, an MTP module that drafts, and their joint losses."""

from abc import ABC, abstractmethod
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from penny_models.training.draft_mask import draft_step_mask

DRAFT_STEPS = 3
"""Tokens that a NEXTN chain drafts, the reference's setting: one MTP pass each."""

Rotary = tuple[Tensor, Tensor]


class DraftingModel(nn.Module, ABC):
    """A language model ``base`` of transformers and its ``mtp`` module, over whole sequences.

    The *features* are what the MTP module takes from the model at a position, and hands to its own next step.
    """

    base: Any
    mtp: Any

    @property
    def text(self) -> Any:
        """Transformers' text model: embedding, layers and rotary table."""
        return self.base.model.language_model

    def rotary(self, x: Tensor, first: int, length: int) -> Rotary:
        """Return the rotary tables [1, T, R] of positions ``first`` to ``first + length``."""
        positions = torch.arange(first, first + length, device=x.device).expand(3, 1, -1)
        return self.text.rotary_emb(x, positions)  # type: ignore[no-any-return]

    def embed(self, tokens: Tensor) -> Tensor:
        """Return embeddings [B, T, H] of token ids [B, T]."""
        return rows_of(self.text.embed_tokens, tokens)

    def head(self, hidden: Tensor) -> Tensor:
        """Return logits [B, T, vocab] of hidden states [B, T, H]."""
        return self.base.lm_head(hidden)  # type: ignore[no-any-return]

    @abstractmethod
    def features(self, tokens: Tensor, record: Any = None) -> Tensor:
        """Return the features [B, T, F] of token ids [B, T]; ``record`` is what ``new_record`` made."""

    @abstractmethod
    def hidden(self, features: Tensor) -> Tensor:
        """Return the hidden states [B, T, H] that the head takes."""

    @abstractmethod
    def new_past(self) -> Any:
        """Return an empty collection of the MTP layer's keys and values."""

    @abstractmethod
    def draft_step(
        self, embedded: Tensor, features: Tensor, rotary: Rotary, mask: Tensor | None, past: Any, record: Any
    ) -> tuple[Tensor, Tensor]:
        """Run the MTP module; return hidden states for the head, and features for the next step."""

    def new_record(self) -> Any:
        """Return what a pass collects for ``extra_losses``; None collects nothing."""
        return None

    def extra_losses(self, record: Any) -> dict[str, Tensor]:
        """Return the losses beside cross-entropies."""
        return {}

    def drafts(self, tokens: Tensor, features: Tensor, record: Any = None) -> list[Tensor]:
        """Return the logits [B, T, vocab] of every draft step, at every position at once.

        ``tokens`` [B, T + 3] are the inputs and the tokens that the steps are given; ``features`` [B, T, F].
        """
        length = features.shape[1]
        embedded = self.embed(tokens[:, 1:])
        past = self.new_past()
        out: list[Tensor] = []
        for step in range(DRAFT_STEPS):
            rotary = self.rotary(embedded, step, length)
            mask = draft_step_mask(length, step + 1, tokens.device) if step else None
            given = embedded[:, step : step + length]
            hidden, features = self.draft_step(given, features, rotary, mask, past, record)
            out.append(self.head(hidden))
        return out

    def forward(self, tokens: Tensor, record: Any = None) -> list[Tensor]:
        """Run ``tokens`` [B, T + 3]; return the logits [B, T, vocab] of the model and of each draft step."""
        features = self.features(tokens[:, :-DRAFT_STEPS], record)
        return [self.head(self.hidden(features)), *self.drafts(tokens, features, record)]

    def losses(self, window: Tensor) -> dict[str, Tensor]:
        """Return the losses of ``window`` [B, T + 4]: in nats for each output's next token, and the extra ones."""
        record = self.new_record()
        out = self(window[:, :-1], record)
        length = out[0].shape[1]
        losses = {
            name: F.cross_entropy(logits.flatten(0, 1).float(), window[:, ahead : ahead + length].flatten())
            for ahead, (name, logits) in enumerate(zip(loss_names(), out, strict=True), start=1)
        }
        return losses | self.extra_losses(record)


def rows_of(table: nn.Embedding, ids: Tensor) -> Tensor:
    """Return rows [..., W] of a table for ids [...]; the gradient can be captured in a CUDA graph.

    That of ``nn.Embedding`` waits for the device.
    """
    return table.weight.index_select(0, ids.flatten()).view(*ids.shape, -1)


def loss_names() -> list[str]:
    """Return the names of the cross-entropies: the model's, and each draft step's."""
    return ["main", *(f"mtp{step}" for step in range(1, DRAFT_STEPS + 1))]
