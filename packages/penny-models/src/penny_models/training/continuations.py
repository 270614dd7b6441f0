"""On-policy text: a frozen model continues prompts, greedily or at a temperature, many at a time."""

from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache


def choose(logits: Tensor, temperatures: Tensor, generator: torch.Generator) -> Tensor:
    """Return one token id for each row of ``logits`` [B, vocab]: the best, or drawn where the temperature is not 0.

    A draw is the best of logits / temperature + Gumbel noise, which needs no cumulative sum and no host.
    """
    wide = logits.float()
    noise = torch.empty_like(wide).exponential_(generator=generator)
    hot = temperatures.unsqueeze(-1)
    drawn = wide / hot.clamp_min(1e-6) - noise.clamp_min(1e-30).log()
    return torch.where(hot > 0, drawn, wide).argmax(-1)


@torch.no_grad()
def continue_prompts(model: Any, prompts: Tensor, new: int, temperatures: Tensor, seed: int) -> Tensor:
    """Return [B, P + new] token ids: the prompts, each continued by ``new`` tokens of the model's choice.

    Nothing stops a continuation: an end marker is followed by whatever the model puts after it.

    Args:
        model: A causal model of transformers with ``model.language_model`` and ``lm_head``.
        prompts: [B, P] token ids; all rows have the same length.
        new: Tokens to add.
        temperatures: [B]; 0 is greedy.
        seed: Of the draws. The same seed, device and batch give the same text.
    """
    generator = torch.Generator(prompts.device).manual_seed(seed)
    cache = DynamicCache(config=model.config.text_config)
    text = torch.empty(len(prompts), prompts.shape[1] + new, dtype=torch.long, device=prompts.device)
    text[:, : prompts.shape[1]] = prompts
    last = prompts
    for position in range(prompts.shape[1], text.shape[1]):
        out = model.model.language_model(input_ids=last, past_key_values=cache, use_cache=True)
        chosen = choose(model.lm_head(out.last_hidden_state[:, -1]), temperatures, generator)
        text[:, position] = chosen
        last = chosen.unsqueeze(-1)
    return text


def slices(stream: Tensor, count: int, length: int, generator: torch.Generator) -> Tensor:
    """Return ``count`` random slices [count, length] of a token stream [n]; ``generator`` is on the CPU."""
    starts = torch.randint(0, len(stream) - length + 1, (count,), generator=generator).to(stream.device)
    return stream[starts.unsqueeze(-1) + torch.arange(length, device=stream.device)].long()


def repeated_share(text: Tensor, size: int = 4) -> float:
    """Return the share of ``size``-grams in rows [B, n] that occurred before in their own row, 0 to 1."""
    repeated = total = 0
    for row in text.tolist():
        grams = [tuple(row[i : i + size]) for i in range(len(row) - size + 1)]
        repeated += len(grams) - len(set(grams))
        total += len(grams)
    return repeated / total
