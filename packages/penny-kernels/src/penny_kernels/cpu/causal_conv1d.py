"""The short depthwise causal convolution in front of a gated delta net, with its sliding state.

Every form multiplies first and then adds the taps oldest first, each rounded to float32, so decode,
verification and a prefill cut anywhere give the same floats. The state of a sequence is its last ``width -
1`` inputs, oldest first.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from penny_kernels.cpu.draft_tree import parents_of
from penny_kernels.cpu.operations import operation
from penny_kernels.cpu.state_slots import load_slots, store_slots


def _finish(out: Tensor, bias: Tensor | None, activation: str | bool | None) -> Tensor:
    if bias is not None:
        out += bias
    return F.silu(out, inplace=True) if activation in ("silu", "swish", True) else out


@operation("sgl_kernel.mamba")
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
        cache_indices: [sequences], pool slots; a negative slot starts from zeros and is not written.
        query_start_loc: [sequences + 1]; ``seq_lens_cpu`` is not needed.

    Returns:
        [dim, tokens] in the dtype of the input (a transposed view of contiguous [tokens, dim]).
    """
    x = mixed_qkv_transposed.transpose(0, 1)
    tokens = x.shape[0]
    history = conv_weights.shape[1] - 1
    starts = query_start_loc.to(torch.int64)
    count = starts.numel() - 1
    slots = cache_indices[:count].tolist()
    past = load_slots(conv_states, slots)[0].transpose(1, 2).float()
    if has_initial_state is None:
        past = torch.zeros_like(past)
    else:
        past = past.masked_fill(~has_initial_state.view(-1, 1, 1), 0)
    # Each sequence gets its history in front: token t of sequence i moves to row t + history * (i + 1).
    offset = history * torch.arange(count).unsqueeze(1) + torch.arange(history)
    if count == 1:
        rows = None
        padded = torch.cat((past[0], x.float()))
    else:
        rows = torch.arange(tokens) + history * torch.repeat_interleave(torch.arange(count), starts.diff())
        padded = past.new_empty(tokens + history * count, x.shape[1])
        padded[rows + history] = x.float()
        padded[starts[:-1, None] + offset] = past
    span = padded.shape[0] - history
    columns = conv_weights.float().t().contiguous()
    out = padded[:span] * columns[0]
    product = torch.empty_like(out)
    for tap in range(1, history + 1):
        out += torch.mul(padded[tap : tap + span], columns[tap], out=product)
    out = _finish(out if rows is None else out[rows], bias, activation)
    store_slots(conv_states, slots, padded[starts[1:, None] + offset].transpose(1, 2))
    return out.to(x.dtype).transpose(0, 1)


@operation("sgl_kernel.mamba")
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
        retrieve_next_token, retrieve_next_sibling: [sequences, steps], first child and next sibling of each
            draft token or -1. Given, each token is convolved with its ancestors instead of the tokens before
            it.
        retrieve_parent_token: [sequences, steps]; WRITTEN with each token's parent (0 for the root): the
            recurrent verification of the same layer reads it.

    Returns:
        As ``x`` in shape and dtype.
    """
    slots = conv_state_indices.tolist()
    taps = weight.float().t()
    past = load_slots(conv_state, slots)[0].transpose(1, 2)
    if x.dim() == 2:
        window = torch.cat((past, x.unsqueeze(1)), 1).float()
        store_slots(conv_state, slots, window[:, 1:].transpose(1, 2))
        return _finish((window * taps).sum(1), bias, activation).to(x.dtype)

    history, steps = past.shape[1], x.shape[2]
    padded = torch.cat((past, x.transpose(1, 2)), 1).float()
    node = torch.arange(history, history + steps).expand(len(slots), steps)
    if retrieve_next_token is None:
        links = torch.arange(-1, history + steps - 1).clamp(min=0).expand(len(slots), -1)
    else:
        assert retrieve_next_sibling is not None
        assert retrieve_parent_token is not None
        parent = parents_of(retrieve_next_token, retrieve_next_sibling)[: len(slots), :steps].clamp(min=0)
        retrieve_parent_token[: len(slots), :steps] = parent
        before = torch.arange(-1, history).clamp(min=0).expand(len(slots), -1)
        links = torch.cat((before, parent[:, 1:] + history), 1)
    lineage = [node]
    for _ in range(history):
        lineage.append(links.gather(1, lineage[-1]))
    windows = padded[torch.arange(len(slots)).view(-1, 1, 1), torch.stack(lineage[::-1], 2)]
    if intermediate_conv_window is not None:
        assert intermediate_state_indices is not None
        after = windows[:, :, 1:].transpose(2, 3).to(intermediate_conv_window.dtype)
        intermediate_conv_window[intermediate_state_indices.to(torch.int64), :steps] = after
    store_slots(conv_state, slots, padded[:, steps:].transpose(1, 2))
    return _finish((windows * taps).sum(2), bias, activation).to(x.dtype).transpose(1, 2)
