"""Draft trees: building them from the drafter's choices, walking them, accepting a path greedily.

A tree of n draft tokens is three arrays [sequences, n]: ``retrieve_index`` (a token's row in the flat batch),
``retrieve_next_token`` (its first child or -1) and ``retrieve_next_sibling`` (its parent's next child or -1).
Twins of the Triton kernels in ``kernels/ops/speculative/spec_tree.py``.
"""

import torch
from torch import Tensor

from penny_kernels.cpu.operations import operation


def parents_of(next_token: Tensor, next_sibling: Tensor) -> Tensor:
    """Parent of each tree token, -1 for the root and for tokens that no link reaches.

    Args:
        next_token, next_sibling: [sequences, n] integer, -1 for none.

    Returns:
        [sequences, n] int64.
    """
    sequences, n = next_token.shape
    node = torch.arange(n, device=next_token.device).expand(sequences, n)
    # Column n catches the links that lead nowhere.
    first_of = node.new_full((sequences, n + 1), -1)
    first_of.scatter_(1, next_token.to(torch.int64).where(next_token >= 0, n), node)
    elder = torch.arange(n + 1, device=node.device).repeat(sequences, 1)
    elder.scatter_(1, next_sibling.to(torch.int64).where(next_sibling >= 0, n), node)
    elder[:, n] = n
    for _ in range(max(n - 1, 1).bit_length()):
        elder = elder.gather(1, elder)
    return first_of.gather(1, elder)[:, :n]


@operation("sgl_kernel")
def build_tree_kernel_efficient_cpu(
    parent_list: Tensor,
    selected_index: Tensor,
    verified_seq_len: Tensor,
    tree_mask: Tensor,
    positions: Tensor,
    retrieve_index: Tensor,
    retrieve_next_token: Tensor,
    retrieve_next_sibling: Tensor,
    topk: int,
    depth: int,
    draft_token_num: int,
    tree_mask_mode: int,
) -> None:
    """Fill mask, positions and links of the trees that the drafter's selected candidates form.

    Args:
        parent_list: [sequences, candidates], the flat candidate that each group of ``topk`` candidates grew
            from.
        selected_index: [sequences, n - 1], the flat candidates kept, ascending.
        verified_seq_len: [sequences], tokens before the tree.
        tree_mask: flat bool or integer, written: mode 0 (FULL_MASK) rows of ``verified_seq_len + n`` of which
            only the tree's columns are written; mode 1 (QLEN_ONLY) [sequences, n, n].
        positions: [sequences * n], written: prefix length plus depth in the tree.
        retrieve_index, retrieve_next_token, retrieve_next_sibling: [sequences, n], written; the latter two
            must come filled with -1.

    Raises:
        NotImplementedError: for mode 2 (bit-packed masks).
    """
    if int(tree_mask_mode) not in (0, 1):
        raise NotImplementedError(
            f"build_tree_kernel_efficient_cpu found tree mask mode {int(tree_mask_mode)}; "
            "it writes FULL_MASK (0) and QLEN_ONLY (1)."
        )
    sequences, n = verified_seq_len.numel(), draft_token_num
    lengths = verified_seq_len.to(torch.int64)
    selected = selected_index.to(torch.int64)
    group = selected // topk
    # A single draft has no parent in the list; the column that is added stands for it, and is not looked at.
    candidate = torch.constant_pad_nd(parent_list.long().reshape(sequences, -1), (0, 1)).gather(1, group)
    same = candidate.unsqueeze(2) == selected.unsqueeze(1)
    found = same.any(2) | (group == 0)
    parent = same.int().argmax(2).add_(1).masked_fill_(group == 0, 0).masked_fill_(~found, -1)
    parent = torch.cat((parent.new_full((sequences, 1), -1), parent), 1)

    node = torch.arange(n)
    retrieve_index.copy_((torch.arange(sequences) * n).unsqueeze(1) + node)
    child = parent.unsqueeze(1) == node.unsqueeze(1)
    _write_first(retrieve_next_token, child)
    sibling = (
        (parent.unsqueeze(1) == parent.unsqueeze(2)) & (node > node.unsqueeze(1)) & (parent >= 0).unsqueeze(1)
    )
    _write_first(retrieve_next_sibling, sibling)

    mask = torch.zeros(sequences, n, n, dtype=torch.bool)
    mask[:, :, 0] = True
    level = torch.zeros(sequences, n, dtype=torch.int64)
    cursor = node.expand(sequences, n)
    for _ in range(depth):
        inside = cursor > 0
        level += inside
        mask.scatter_(2, cursor.clamp(min=0).unsqueeze(2), True)
        cursor = parent.gather(1, cursor.clamp(min=0)).where(inside, cursor)
    positions.copy_((lengths.unsqueeze(1) + level).reshape(-1))
    if int(tree_mask_mode) == 1:
        tree_mask[: mask.numel()] = mask.reshape(-1).to(tree_mask.dtype)
        return
    before = torch.arange(sequences) * n * n + (lengths.cumsum(0) - lengths) * n
    row_start = before.unsqueeze(1) + (lengths.unsqueeze(1) + n) * node + lengths.unsqueeze(1)
    tree_mask[row_start.unsqueeze(2) + node] = mask.to(tree_mask.dtype)


def _write_first(links: Tensor, candidates: Tensor) -> None:
    """Write into ``links`` [.., n] the first True column of ``candidates`` [.., n, n], where there is one."""
    first = candidates.int().argmax(2).to(links.dtype)
    links.copy_(first.where(candidates.any(2), links))


@operation("sgl_kernel")
def verify_tree_greedy_cpu(
    predicts: Tensor,
    accept_index: Tensor,
    accept_token_num: Tensor,
    candidates: Tensor,
    retrive_index: Tensor,
    retrive_next_token: Tensor,
    retrive_next_sibling: Tensor,
    target_predict: Tensor,
) -> None:
    """Follow from each root the children that the target model agrees with.

    Args:
        predicts: [sequences * n], written at the accepted rows with the target's tokens.
        accept_index: [sequences, steps], written from the front with the accepted rows; the rest is left.
        accept_token_num: [sequences], written: accepted draft tokens, without the root.
        candidates: [sequences, n] draft tokens; ``target_predict``: [sequences, n], the target's greedy
            choice.
        retrive_index, retrive_next_token, retrive_next_sibling: [sequences, n], the tree.
    """
    sequences = candidates.shape[0]
    parent = parents_of(retrive_next_token, retrive_next_sibling)
    row = torch.arange(sequences)
    target = target_predict.reshape(-1)
    current = torch.zeros(sequences, dtype=torch.int64)
    last = retrive_index[:, 0].to(torch.int64)
    walking = torch.ones(sequences, dtype=torch.bool)
    accepted = torch.zeros(sequences, dtype=torch.int64)
    accept_index[:, 0] = last.to(accept_index.dtype)
    for step in range(1, accept_index.shape[1]):
        wanted = target[last]
        match = (parent == current.unsqueeze(1)) & (candidates == wanted.unsqueeze(1)) & walking.unsqueeze(1)
        walking = match.any(1)
        if not bool(walking.any()):
            break
        current = match.int().argmax(1).where(walking, current)
        predicts[last[walking]] = wanted[walking].to(predicts.dtype)
        last = retrive_index[row, current].to(torch.int64).where(walking, last)
        accept_index[walking, step] = last[walking].to(accept_index.dtype)
        accepted += walking
    accept_token_num.copy_(accepted)
    predicts[last] = target[last].to(predicts.dtype)
