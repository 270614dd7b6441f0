"""Measured acceptance of a NEXTN chain, on the model's own continuations of held-out text.

The text is made by the model alone. That changes nothing: SGLang drafts the likeliest tokens whatever the
temperature, and accepts a draft with the probability that the model gives it, so a draft is accepted as often as
it is the token that the model chose (``speculative/eagle_info.py``, target-only sampling with thresholds of 1).
"""

from typing import Any

import torch
from torch import Tensor

from penny_models.training.acceptance import Acceptance, kinds_together, row
from penny_models.training.base import DRAFT_STEPS, DraftingModel
from penny_models.training.continuations import continue_prompts, repeated_share, slices


def walk(drafted: Tensor, text: Tensor, prompt: int) -> Acceptance:
    """Decode texts [B, T] from their first token after ``prompt`` tokens, verify by verify.

    ``drafted`` [B, T', 3] are the tokens that the chain drafts after each position i, for places i + 2 to i + 4.
    The position before the last committed token drafts; the walk goes on behind what was accepted and the
    model's own next token.
    """
    accepted = torch.zeros(DRAFT_STEPS, dtype=torch.long)
    verified = 0
    last = torch.full((len(text),), prompt)
    inside = torch.arange(1, DRAFT_STEPS + 1)
    end = min(drafted.shape[1] + 1, text.shape[1] - DRAFT_STEPS)
    while bool((running := last < end).any()):
        at = last.clamp_max(end - 1)
        wanted = text.gather(1, at.unsqueeze(-1) + inside)
        found = drafted.gather(1, (at - 1).view(-1, 1, 1).expand(-1, 1, DRAFT_STEPS))[:, 0]
        chain = (found == wanted).long().cumprod(-1) * running.unsqueeze(-1)
        accepted += chain.sum(0)
        verified += int(running.sum())
        last = last + torch.where(running, chain.sum(-1) + 1, 0)
    return Acceptance(verified, accepted)


@torch.no_grad()
def drafts_of(model: DraftingModel, text: Tensor, rows: int) -> Tensor:
    """Return the drafts [B, T - 3, 3] after every position of texts [B, T], ``rows`` texts at once."""
    parts: list[Tensor] = []
    for chunk in text.split(rows):
        features = model.features(chunk[:, :-DRAFT_STEPS])
        parts.append(torch.stack([logits.argmax(-1) for logits in model.drafts(chunk, features)], -1))
    return torch.cat(parts)


def measure(
    model: DraftingModel,
    streams: dict[str, Tensor],
    prompts: int,
    prompt: int,
    new: int,
    seed: int,
    rows: int,
) -> dict[str, Any]:
    """Return acceptance on continuations of held-out text, at temperatures 0 and 1.

    For each temperature: by kind of text and for all kinds together, tokens for each verify (the model's own
    token counted), acceptance by step, verifies, and the share of repeated 4-grams of the produced text.

    Args:
        model: With the weights that are published.
        streams: Held-out token ids [n] by kind.
        prompts: Prompts of each kind.
        prompt: Tokens of a prompt.
        new: Tokens produced after each; a text less 3 tokens in whole chunks of 64 is fastest.
        seed: Chooses the prompts and draws.
        rows: Texts in one pass.
    """
    found: dict[str, Any] = {"prompts_of_each_kind": prompts, "prompt_tokens": prompt, "new_tokens": new}
    for temperature in (0.0, 1.0):
        walked: list[Acceptance] = []
        texts: list[Tensor] = []
        result: dict[str, Any] = {}
        for index, (kind, stream) in enumerate(streams.items()):
            start = slices(stream, prompts, prompt, torch.Generator().manual_seed(seed + index))
            heat = torch.full((prompts,), temperature, device=stream.device)
            text = continue_prompts(model.base, start, new, heat, seed + index)
            drafted = drafts_of(model, text, rows).cpu()
            walked.append(walk(drafted, text.cpu(), prompt))
            texts.append(text[:, prompt:])
            result[kind] = row(walked[-1], repeated_share(texts[-1]))
        result["all"] = row(kinds_together(walked), repeated_share(torch.cat(texts)))
        found[f"temperature_{temperature:g}"] = result
    return found
