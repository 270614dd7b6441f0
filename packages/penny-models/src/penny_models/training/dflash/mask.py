"""What a row of a block sees: committed tokens before the anchor, and its own block."""

import torch
from torch import Tensor


def row_positions(anchors: Tensor, block_size: int) -> Tensor:
    """Return the positions [B, N, block] of the rows of blocks whose anchors are at ``anchors`` [B, N]."""
    return anchors.unsqueeze(-1) + torch.arange(block_size, device=anchors.device)


def block_mask(anchors: Tensor, length: int, block_size: int, window: int | None) -> Tensor:
    """Return which keys each row sees: [B, 1, N * block, length + N * block], true where it does.

    The keys are ``length`` context tokens, then the rows of all blocks. No row sees the anchor among the
    context: its hidden state is not known before it is verified.

    Args:
        anchors: [B, N], the position of each block's anchor.
        length: Tokens of the context, at positions from 0.
        block_size: Rows of a block.
        window: Tokens that a row sees, itself included, and then it sees no later row of its block (SGLang's
            ``sliding_attention``). None: every committed token and all rows of the block (``full_attention``).
    """
    count = anchors.shape[1]
    positions = row_positions(anchors, block_size).flatten(1)
    context = torch.arange(length, device=anchors.device)
    committed = context < anchors.repeat_interleave(block_size, dim=1).unsqueeze(-1)
    one = torch.ones(block_size, block_size, dtype=torch.bool, device=anchors.device)
    if window is not None:
        committed = committed & (positions.unsqueeze(-1) - context < window)
        one = one.tril().triu(1 - window)
    same = torch.eye(count, dtype=torch.bool, device=anchors.device)
    own = (same[:, None, :, None] & one[None, :, None, :]).view(count * block_size, -1)
    return torch.cat([committed, own.expand(len(anchors), -1, -1)], dim=-1).unsqueeze(1)
