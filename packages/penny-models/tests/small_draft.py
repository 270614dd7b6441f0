"""A draft of a few numbers, and random weights, for the tests of DFlash2."""

from typing import Any

import torch
from torch import Tensor

from penny_models.training.dflash.config import DraftShape

SMALL = DraftShape(
    hidden_size=16,
    intermediate_size=24,
    heads=4,
    kv_heads=2,
    head_dim=8,
    vocab_size=40,
    eps=1e-6,
    rope_theta=100.0,
    layer_types=("sliding_attention", "full_attention"),
    sliding_window=5,
    block_size=4,
    target_layer_ids=(0, 2),
    mask_token_id=39,
    conv_kernel_size=3,
    conv_group_size=4,
    selector_rank=6,
    selector_top_k=3,
    output_multiplier=1.5,
    softcap=4.0,
)


def filled(module: torch.nn.Module, seed: int) -> Any:
    """Give every parameter a random value, so that none hides another."""
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in module.parameters():
            scale = parameter.shape[-1] ** -0.5 if parameter.ndim == 2 else 1.0
            parameter.copy_(torch.randn(parameter.shape, generator=generator) * scale)
    return module.eval()


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))
