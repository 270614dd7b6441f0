"""Root-mean-square normalisation with a plain weight (the target's own norms add 1 to theirs)."""

import torch
from torch import Tensor, nn


class RMSNorm(nn.Module):
    """``x / rms(x) * weight`` over the last axis, in float32; the result has the dtype of ``x``."""

    def __init__(self, size: int, eps: float) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(size))
        self.eps = eps

    def forward(self, x: Tensor) -> Tensor:
        wide = x.float()
        scale = torch.rsqrt(wide.square().mean(-1, keepdim=True) + self.eps)
        return (wide * scale * self.weight).to(x.dtype)
