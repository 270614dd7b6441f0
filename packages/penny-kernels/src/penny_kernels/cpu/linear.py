"""Linear layers with bfloat16 weights, at decode sizes."""

import torch.nn.functional as F
from torch import Tensor

SMALL_BATCH = 4
"""Rows up to which float32 is faster: a bfloat16 product costs about 14 us to start."""


def linear_with_wide_copy(
    x: Tensor, weight: Tensor, wide_weight: Tensor, bias: Tensor | None = None
) -> Tensor:
    """``x @ weight.T + bias``, from the float32 copy of the weight when there are few rows.

    Args:
        x: [rows, in]; ``weight``: [out, in], both of one dtype; ``wide_weight``: ``weight.float()``.
        bias: [out] or None.

    Returns:
        [rows, out] in the dtype of ``x``; float32 accumulation either way.
    """
    if x.shape[0] > SMALL_BATCH:
        return F.linear(x, weight, bias)
    return F.linear(x.float(), wide_weight, None if bias is None else bias.float()).to(x.dtype)
