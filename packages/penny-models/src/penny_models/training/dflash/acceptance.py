"""Measured acceptance: a target's text is decoded again block by block, as a server with this draft would.

The text is made first, by the target alone. That changes nothing: verification keeps the target's law, so the
text a server returns is distributed like this one, and given the text and the draft's distribution q, a token
that the target drew with probability p is one that the draft had proposed with probability min(1, q / p). At
temperature 0 that is whether the draft proposes it. So every draw here has the law of SGLang's own loop
(``kernels/ops/speculative/dspark/dspark_accept.py`` with the selector's sampled path), without a second pass of
the target over each block.
"""

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from penny_models.training.acceptance import Acceptance, kinds_together, row
from penny_models.training.continuations import continue_prompts, repeated_share, slices
from penny_models.training.dflash.model import DraftModel, block_ids
from penny_models.training.dflash.target import Seen, Target


def _proposals(
    draft: DraftModel, target: Target, seen: Seen, text: Tensor, anchors: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the candidates [B, S, K] after ``anchors`` [B], their unary logits and the hidden states."""
    shape = draft.shape
    place = anchors.unsqueeze(-1)
    embedded = target.embed(block_ids(text.gather(1, place), shape))
    hidden = draft(seen.features, embedded, place)[:, 0, 1:]
    unary, candidates = draft.unary_logits(hidden, target.head).topk(shape.selector_top_k)
    return candidates, unary, hidden


def _chances(draft: DraftModel, candidates: Tensor, unary: Tensor, hidden: Tensor, block: Tensor) -> Tensor:
    """Return the probability [B, S] of each of the block's tokens [B, S + 1] after the one before it."""
    scores = draft.candidate_selector.scores(candidates, unary, hidden, block[:, :-1])
    return (scores.softmax(-1) * (candidates == block[:, 1:].unsqueeze(-1))).sum(-1)


@torch.no_grad()
def walk_text(
    draft: DraftModel, target: Target, text: Tensor, prompt: int, temperature: float, seed: int
) -> Acceptance:
    """Decode texts [B, T] block by block from their first token after ``prompt`` tokens.

    Args:
        draft: In the dtype in which it is served.
        target: The model that made the text.
        text: Prompts and continuations by the target at ``temperature``.
        prompt: Tokens of the prompts.
        temperature: 0, where the draft proposes its best path, or 1, where it draws one from its selector.
        seed: Of the acceptance draws at temperature 1.
    """
    if temperature not in (0.0, 1.0):
        raise ValueError(f"Acceptance is measured at temperature 0 or 1, not {temperature}.")
    slots = draft.shape.block_size - 1
    generator = torch.Generator(text.device).manual_seed(seed)
    seen = target.see(text)
    positions = torch.full_like(text[:, 0], prompt)
    inside = torch.arange(slots + 1, device=text.device)
    accepted = torch.zeros(slots, dtype=torch.long, device=text.device)
    verified = 0
    while bool((running := positions + slots < text.shape[1]).any()):
        anchors = positions.clamp_max(text.shape[1] - slots - 1)
        block = text.gather(1, anchors.unsqueeze(-1) + inside)
        candidates, unary, hidden = _proposals(draft, target, seen, text, anchors)
        if temperature == 0.0:
            proposed, _ = draft.candidate_selector.walk(candidates, unary, hidden, block[:, 0], None)
            kept = proposed == block[:, 1:]
        else:
            judged = seen.hidden.gather(
                1, (anchors.unsqueeze(-1) + inside[:-1]).unsqueeze(-1).expand_as(hidden)
            )
            wanted = F.linear(judged, target.head).float().softmax(-1)
            wanted = wanted.gather(-1, block[:, 1:].unsqueeze(-1)).squeeze(-1)
            draws = torch.rand(wanted.shape, device=text.device, generator=generator)
            kept = draws * wanted < _chances(draft, candidates, unary, hidden, block)
        chain = kept.long().cumprod(-1) * running.unsqueeze(-1)
        accepted += chain.sum(0)
        verified += int(running.sum())
        positions = positions + torch.where(running, chain.sum(-1) + 1, 0)
    return Acceptance(verified, accepted.cpu())


def measure(
    draft: DraftModel,
    target: Target,
    streams: dict[str, Tensor],
    prompts: int,
    prompt: int,
    new: int,
    seed: int,
) -> dict[str, Any]:
    """Return acceptance on continuations of held-out text, at temperatures 0 and 1.

    For each temperature: by kind of text and for all kinds together, tokens for each verify (the bonus token
    counted), acceptance by slot, verifies, and the share of repeated 4-grams of the produced text.

    Args:
        draft: The draft, as exported.
        target: The target.
        streams: Held-out token ids [n] by kind.
        prompts: Prompts of each kind.
        prompt: Tokens of a prompt.
        new: Tokens produced after each.
        seed: Chooses the prompts and draws.
    """
    found: dict[str, Any] = {"prompts_of_each_kind": prompts, "prompt_tokens": prompt, "new_tokens": new}
    for temperature in (0.0, 1.0):
        walked: dict[str, Acceptance] = {}
        texts: list[Tensor] = []
        rows: dict[str, Any] = {}
        for index, (kind, stream) in enumerate(streams.items()):
            start = slices(stream, prompts, prompt, torch.Generator().manual_seed(seed + index))
            heat = torch.full((prompts,), temperature, device=stream.device)
            text = continue_prompts(target.model, start, new, heat, seed + index)
            walked[kind] = walk_text(draft, target, text, prompt, temperature, seed)
            texts.append(text[:, prompt:])
            rows[kind] = row(walked[kind], repeated_share(texts[-1]))
        rows["all"] = row(kinds_together(walked.values()), repeated_share(torch.cat(texts)))
        found[f"temperature_{temperature:g}"] = rows
    return found
