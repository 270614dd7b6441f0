"""What a chain of draft steps sees, when every position of a sequence drafts at once."""

import torch
from torch import Tensor


def draft_step_mask(length: int, step: int, device: torch.device) -> Tensor:
    """Return the mask [1, 1, T, step * T] of draft step ``step`` (1 is the first) over the keys of all steps.

    At each position a chain sees the first step's keys up to that position, and of every later step its own
    one key: that is what the draft layer's cache holds when a server drafts after that position.
    """
    causal = torch.ones(length, length, dtype=torch.bool, device=device).tril()
    own = torch.eye(length, dtype=torch.bool, device=device)
    return torch.cat([causal, *[own] * (step - 1)], dim=1)[None, None]
