"""The grouped dynamic depthwise convolution along a block."""

import torch
import torch.nn.functional as F
from torch import Tensor, nn


def convolve(rows: Tensor, base: Tensor, delta: Tensor) -> Tensor:
    """Mix each row of a block with the rows before it in the same block.

    `out[i] = sum over t of (base[t] + delta[i, t]) * rows[i - t]`, with rows before the block counted as zero.
    Computed in float32 at least, since the sums leave the range of float16; SGLang's `DFlashGroupedConv`.

    Args:
        rows: float `(..., block, hidden)`.
        base: float `(taps, hidden)`, one coefficient a channel.
        delta: float `(..., block, taps, groups)`, one coefficient for each of `groups` equal runs of channels.

    Returns:
        Like `rows`, in the dtype of `rows`.
    """
    taps, groups = delta.shape[-2:]
    wide = torch.promote_types(rows.dtype, torch.float32)
    grouped = rows.to(wide).unflatten(-1, (groups, -1))
    kernel = base.to(wide).view(taps, groups, -1) + delta.to(wide).unsqueeze(-1)
    out = torch.zeros_like(grouped)
    for tap in range(min(taps, rows.shape[-2])):
        earlier = F.pad(grouped[..., : rows.shape[-2] - tap, :, :], (0, 0, 0, 0, tap, 0))
        out = out + kernel[..., tap, :, :] * earlier
    return out.flatten(-2).to(rows.dtype)


class GroupedConvolution(nn.Module):
    """Wraps a sublayer: one projection of the sublayer's input gives the kernels before and after it.

    Attributes:
        base_kernel: `(2, taps, hidden)`, side 0 before the sublayer, side 1 after it.
        kernel_projection: hidden to `2 * taps * hidden / group_size`, without bias.
    """

    def __init__(self, hidden_size: int, taps: int, group_size: int) -> None:
        super().__init__()
        self.shape = (2, taps, hidden_size // group_size)
        self.base_kernel = nn.Parameter(torch.zeros(2, taps, hidden_size))
        self.kernel_projection = nn.Linear(hidden_size, 2 * taps * (hidden_size // group_size), bias=False)

    def before(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """The sublayer's input from `rows` `(..., block, hidden)`, and the coefficients that `after` needs."""
        delta = self.kernel_projection(rows).unflatten(-1, self.shape)
        return convolve(rows, self.base_kernel[0], delta[..., 0, :, :]), delta[..., 1, :, :]

    def after(self, rows: Tensor, delta: Tensor) -> Tensor:
        """The sublayer's output `rows` `(..., block, hidden)`, convolved with what `before` returned."""
        return convolve(rows, self.base_kernel[1], delta)
