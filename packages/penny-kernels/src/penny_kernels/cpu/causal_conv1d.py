"""The short depthwise causal convolution in front of a gated delta net, with its sliding state.

Every form adds the taps oldest first with the same element-wise operations, so decode, verification and a prefill cut
anywhere give the same floats. The state of a sequence is its last ``width - 1`` inputs, oldest first.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from penny_kernels.cpu.draft_tree import parents_of


def _taps(windows: list[Tensor], weight: Tensor, bias: Tensor | None, activation: str | bool | None) -> Tensor:
    """Sum of ``windows[j] * weight[:, j]``, each window [..., dim] float32 with dim contiguous."""
    columns = weight.float().t().contiguous()
    out = windows[0] * columns[0]
    for window, column in zip(windows[1:], columns[1:], strict=True):
        out.addcmul_(window, column)
    if bias is not None:
        out += bias
    return F.silu(out, inplace=True) if activation in ("silu", "swish", True) else out


def _load(states: Tensor, slots: Tensor, fresh: Tensor | None) -> Tensor:
    """States as [sequences, width - 1, dim] float32, zero for negative slots and where ``fresh``."""
    window = states[slots.clamp(min=0)].transpose(1, 2).float()
    unused = slots < 0 if fresh is None else fresh | (slots < 0)
    return window.masked_fill(unused.view(-1, 1, 1), 0)


def _store(states: Tensor, slots: Tensor, window: Tensor) -> None:
    window = window.transpose(1, 2).to(states.dtype)
    if bool((slots < 0).any()):
        kept = slots >= 0
        slots, window = slots[kept], window[kept]
    states[slots] = window


def causal_conv1d_fn_cpu(
    mixed_qkv_transposed: Tensor,
    conv_weights: Tensor,
    bias: Tensor | None,
    activation: str | None,
    conv_states: Tensor,
    has_initial_state: Tensor | None,
    cache_indices: Tensor,
    query_start_loc: Tensor,
    seq_lens_cpu: list[int] | None,
) -> Tensor:
    """Convolve whole sequences laid end to end (prefill) and leave each one's last inputs in its slot.

    Args:
        mixed_qkv_transposed: [dim, tokens], any strides.
        conv_weights: [dim, width]; ``bias``: [dim] or None; ``activation``: "silu", "swish" or None.
        conv_states: the pool, [slots, dim, width - 1].
        has_initial_state: [sequences] bool; where False the sequence starts from zeros. None: nowhere.
        cache_indices: [sequences], pool slots; a negative slot is not written.
        query_start_loc: [sequences + 1]; ``seq_lens_cpu`` is not read.

    Returns:
        [dim, tokens] in the dtype of the input (a transposed view of contiguous [tokens, dim]).
    """
    x = mixed_qkv_transposed.transpose(0, 1)
    history = conv_weights.shape[1] - 1
    slots = cache_indices[: query_start_loc.shape[0] - 1].to(torch.int64)
    fresh = ~has_initial_state if has_initial_state is not None else torch.ones_like(slots, dtype=torch.bool)
    past = _load(conv_states, slots, fresh)
    starts = query_start_loc.to(torch.int64)
    count = slots.numel()
    if count == 1:
        padded = torch.cat((past[0], x.float()))
        rows = None
    else:
        # Each sequence gets its history in front: token t of sequence i moves to t + history * (i + 1).
        sequence = torch.repeat_interleave(torch.arange(count), starts.diff())
        rows = torch.arange(x.shape[0]) + history * sequence
        padded = x.new_empty(x.shape[0] + history * count, x.shape[1], dtype=torch.float32)
        padded[rows + history] = x.float()
        heads = starts[:-1, None] + history * torch.arange(count).unsqueeze(1) + torch.arange(history)
        padded[heads] = past
    span = padded.shape[0] - history
    out = _taps([padded[j : j + span] for j in range(history + 1)], conv_weights, bias, activation)
    ends = starts[1:, None] + history * torch.arange(count).unsqueeze(1) + torch.arange(history)
    _store(conv_states, slots, padded[ends])
    return (out if rows is None else out[rows]).to(x.dtype).transpose(0, 1)


def causal_conv1d_update_cpu(
    x: Tensor,
    conv_state: Tensor,
    weight: Tensor,
    bias: Tensor | None,
    activation: str | bool | None,
    conv_state_indices: Tensor,
    intermediate_conv_window: Tensor | None = None,
    intermediate_state_indices: Tensor | None = None,
    retrieve_next_token: Tensor | None = None,
    retrieve_next_sibling: Tensor | None = None,
    retrieve_parent_token: Tensor | None = None,
) -> Tensor:
    """Convolve one token per sequence (decode), or its draft tokens (verification), and slide the state.

    Twin of ``causal_conv1d_update`` in ``kernels/ops/mamba/causal_conv1d_triton.py``.

    Args:
        x: [sequences, dim] or [sequences, dim, steps], any strides.
        conv_state: the pool, [slots, dim, width - 1]; takes the last inputs in order, tree or not.
        conv_state_indices: [sequences]; a negative slot reads as zeros and is not written.
        intermediate_conv_window: [rows, steps, dim, width - 1]; receives the state after each draft token at
            ``[intermediate_state_indices[i], step]``.
        retrieve_next_token, retrieve_next_sibling: [sequences, steps], first child and next sibling of each draft
            token or -1. Given, each token is convolved with its ancestors instead of the tokens before it.
        retrieve_parent_token: [sequences, steps]; WRITTEN with each token's parent (0 for the root): the recurrent
            verification of the same layer reads it.

    Returns:
        As ``x`` in shape and dtype.
    """
    slots = conv_state_indices.to(torch.int64)
    history = weight.shape[1] - 1
    single = x.dim() == 2
    tokens = (x.unsqueeze(1) if single else x.transpose(1, 2)).float()
    steps = tokens.shape[1]
    padded = torch.cat((_load(conv_state, slots, None), tokens), 1)
    if retrieve_next_token is None:
        windows = [padded[:, j : j + steps] for j in range(history + 1)]
    else:
        assert retrieve_next_sibling is not None
        assert retrieve_parent_token is not None
        parent = parents_of(retrieve_next_token[:, :steps], retrieve_next_sibling[:, :steps]).clamp_(min=0)
        retrieve_parent_token[: parent.shape[0], :steps] = parent
        windows = _ancestor_windows(padded, parent, history)
    if intermediate_conv_window is not None:
        assert intermediate_state_indices is not None
        rows = intermediate_state_indices.to(torch.int64)
        after = torch.stack(windows[1:], -1).to(intermediate_conv_window.dtype)
        intermediate_conv_window[rows, :steps] = after
    _store(conv_state, slots, padded[:, steps:])
    out = _taps(windows, weight, bias, activation).to(x.dtype)
    return out.squeeze(1) if single else out.transpose(1, 2)


def _ancestor_windows(padded: Tensor, parent: Tensor, history: int) -> list[Tensor]:
    """Windows [sequences, steps, dim], oldest first: each token's ancestors, then itself."""
    sequences, steps = parent.shape
    before = torch.arange(-1, history).clamp(min=0).expand(sequences, -1)
    links = torch.cat((before[:, : history + 1], parent[:, 1:] + history), 1)
    node = torch.arange(history, history + steps).expand(sequences, -1)
    row = torch.arange(sequences).unsqueeze(1)
    windows = []
    for _ in range(history + 1):
        windows.append(padded[row, node])
        node = links.gather(1, node)
    return windows[::-1]
