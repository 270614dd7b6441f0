"""The grouped dynamic convolution along a block (DFlash2; SGLang ``models/dflash.py``, ``DFlashGroupedConv``)."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def convolve(rows: Tensor, base: Tensor, delta: Tensor) -> Tensor:
    """Mix each row of a block with the rows before it.

    ``out[i] = sum over t of (base[t] + delta[i, t]) * rows[i - t]``; rows before the block count as zero.

    Args:
        rows: [..., block, hidden].
        base: [taps, hidden], one coefficient for each channel.
        delta: [..., block, taps, groups], one for each of ``groups`` equal runs of channels.
    """
    taps, groups = delta.shape[-2:]
    grouped = rows.unflatten(-1, (groups, -1))
    kernel = base.view(taps, groups, -1) + delta.unsqueeze(-1)
    out: Tensor = kernel[..., 0, :, :] * grouped
    for tap in range(1, taps):
        before = F.pad(grouped[..., :-tap, :, :], (0, 0, 0, 0, tap, 0))
        out = out + kernel[..., tap, :, :] * before
    return out.flatten(-2)


class GroupedConvolution(nn.Module):
    """Wraps a sublayer: one projection of its input gives the kernels before and after it.

    ``base_kernel`` is [2, taps, hidden]: side 0 before the sublayer, side 1 after it. It starts as the identity.
    """

    def __init__(self, hidden_size: int, taps: int, group_size: int) -> None:
        super().__init__()
        self.shape = (2, taps, hidden_size // group_size)
        kernel = torch.zeros(2, taps, hidden_size)
        kernel[:, 0] = 1.0
        self.base_kernel = nn.Parameter(kernel)
        self.kernel_projection = nn.Linear(hidden_size, 2 * taps * (hidden_size // group_size), bias=False)

    def prepare(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Return the convolved input of the sublayer and the kernel for ``finish``."""
        delta = self.kernel_projection(rows).unflatten(-1, self.shape)
        return convolve(rows, self.base_kernel[0], delta[..., 0, :, :]), delta[..., 1, :, :]

    def finish(self, rows: Tensor, delta: Tensor) -> Tensor:
        """Convolve the sublayer's output with the kernel that ``prepare`` returned."""
        return convolve(rows, self.base_kernel[1], delta)
