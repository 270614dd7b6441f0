"""The training losses of a draft: its unary logits and its selector against the target's choices."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor

from penny_models.training.dflash.batches import Batch
from penny_models.training.dflash.mask import row_positions
from penny_models.training.dflash.model import DraftModel, block_ids
from penny_models.training.dflash.target import Target

POSITION_DECAY = 4.0
"""Slots over which a loss weight falls by e: an early miss wastes the rest of the block (DFlash, for block 8)."""


@dataclass(frozen=True)
class Losses:
    """Weighted means over slots, in nats: cross-entropy of the unary logits and of the selector's choice."""

    unary: Tensor
    selector: Tensor


def slot_weights(slots: int, device: torch.device) -> Tensor:
    """Return the weight of each slot [slots], falling, with mean 1."""
    weights = torch.exp(-torch.arange(slots, device=device) / POSITION_DECAY)
    return weights / weights.mean()


def with_choice(candidates: Tensor, chosen: Tensor) -> Tensor:
    """Put ``chosen`` [...] in the place of the last of ``candidates`` [..., K] where it is not among them."""
    found = (candidates == chosen.unsqueeze(-1)).any(-1)
    last = torch.where(found, candidates[..., -1], chosen)
    return torch.cat([candidates[..., :-1], last.unsqueeze(-1)], dim=-1)


def draft_losses(draft: DraftModel, target: Target, batch: Batch) -> Losses:
    """Return the losses of all blocks of a batch.

    A slot's label is the target's choice there: in greedy text the next token of the text; elsewhere the
    target's whole distribution over it, given the text so far.
    """
    shape = draft.shape
    seen = target.see(batch.tokens)
    positions = row_positions(batch.anchors, shape.block_size)
    block = batch.tokens.gather(1, positions.flatten(1)).view_as(positions)
    embedded = target.embed(block_ids(block[..., 0], shape))
    hidden = draft(seen.features, embedded, batch.anchors)[:, :, 1:]
    unary = draft.unary_logits(hidden, target.head)

    chosen, previous = block[..., 1:], block[..., :-1]
    with torch.no_grad():
        # The target's hidden state at a token predicts the next one, so slot j is labelled by row j - 1.
        rows = positions[..., :-1].flatten(1).unsqueeze(-1).expand(-1, -1, seen.hidden.shape[-1])
        judged = seen.hidden.gather(1, rows).view(*chosen.shape, -1)
        wanted = F.linear(judged, target.head).float().softmax(-1)
        greedy = batch.greedy.view(-1, 1, 1)
    normaliser = unary.logsumexp(-1)
    best = unary.gather(-1, chosen.unsqueeze(-1)).squeeze(-1)
    expected = torch.where(greedy, best, (wanted * unary).sum(-1))

    candidates = with_choice(unary.detach().topk(shape.selector_top_k).indices, chosen)
    scores = draft.candidate_selector.scores(candidates, unary.gather(-1, candidates), hidden, previous)
    hit = (candidates == chosen.unsqueeze(-1)).float()
    share = wanted.gather(-1, candidates)
    label = torch.where(greedy.unsqueeze(-1), hit, share / share.sum(-1, keepdim=True).clamp_min(1e-6))
    weights = slot_weights(chosen.shape[-1], chosen.device)
    return Losses(
        unary=((normaliser - expected) * weights).mean(),
        selector=(-(label * scores.log_softmax(-1)).sum(-1) * weights).mean(),
    )
