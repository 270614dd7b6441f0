"""The experts of Flash-Next in training: every expert for every token, then the router's weights.

Tiny and of one shape whatever the routing, so that a step can be captured in a CUDA graph.
"""

from typing import Any

import torch
from torch import Tensor


def all_experts(experts: Any, hidden: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
    """Return the experts' weighted sum [tokens, H], as transformers' ``Qwen4ExpTextExperts`` does.

    Args:
        experts: the module with ``gate_up_proj`` [E, 2I, H] and ``down_proj`` [E, H, I].
        hidden: [tokens, H].
        chosen: expert ids [tokens, K].
        weights: their routing weights [tokens, K].
    """
    share = torch.zeros(len(hidden), experts.num_experts, dtype=weights.dtype, device=weights.device)
    share = share.scatter(1, chosen, weights)
    gate, up = (
        (hidden @ experts.gate_up_proj.flatten(0, 1).T)
        .unflatten(1, (experts.num_experts, -1))
        .chunk(2, dim=-1)
    )
    inner = experts.act_fn(gate) * up * share.unsqueeze(-1)
    # One product sums over experts and their inner width.
    return inner.flatten(1) @ experts.down_proj.transpose(1, 2).flatten(0, 1)  # type: ignore[no-any-return]


def balance_loss(logits: Tensor, chosen: Tensor) -> Tensor:
    """Return E * sum(load * probability), 1 when both are uniform (Fedus et al., Switch Transformers, 2021).

    ``logits`` [tokens, E] are the router's, ``chosen`` [tokens, K] the experts that it took.
    """
    experts = logits.shape[-1]
    load = torch.zeros(experts, device=logits.device).scatter_add_(
        0, chosen.flatten(), torch.ones(chosen.numel(), device=logits.device)
    )
    return experts * (load / chosen.numel() * logits.float().softmax(-1).mean(0)).sum()
