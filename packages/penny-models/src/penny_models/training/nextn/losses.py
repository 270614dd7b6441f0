"""The loss of a chain of drafts: each step's cross-entropy with the model's own distribution of that token."""

import torch
from torch import Tensor

from penny_models.training.base import DraftingModel

STEP_WEIGHTS = (1.0, 0.8, 0.6)
"""A later draft counts only after the earlier ones: what it can add is less."""


def chain_losses(main: Tensor, drafts: list[Tensor], first: Tensor) -> list[Tensor]:
    """Return the mean cross-entropy (nats) of each draft step with the model's softened choice.

    Args:
        main: The model's logits [B, T, vocab]; at position i they are of token i + 1.
        drafts: Logits [B, T, vocab] of the steps; step k at position i drafts token i + k + 1.
        first: [B], the first position of each row that counts.
    """
    length = main.shape[1]
    wanted = main.float().softmax(-1)
    places = torch.arange(length, device=main.device)
    losses: list[Tensor] = []
    for step, logits in enumerate(drafts, start=1):
        nats = -(wanted[:, step:] * logits[:, : length - step].float().log_softmax(-1)).sum(-1)
        counts = (places[: length - step] >= first.unsqueeze(-1)).float()
        losses.append((nats * counts).sum() / counts.sum())
    return losses


def mtp_losses(model: DraftingModel, tokens: Tensor, first: Tensor) -> dict[str, Tensor]:
    """Return the losses of token ids [B, T + 3] by name; only the MTP module gets a gradient."""
    with torch.no_grad():
        features = model.features(tokens[:, :-3])
        main = model.head(model.hidden(features))
    record = model.new_record()
    drafts = model.drafts(tokens, features, record)
    losses = {f"mtp{step}": loss for step, loss in enumerate(chain_losses(main, drafts, first), start=1)}
    return losses | model.extra_losses(record)
