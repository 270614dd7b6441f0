"""Gates and the splitting of fused projections.

``exp`` and ``logsigmoid`` give an element the same bits wherever it lies in a tensor; ``sigmoid`` and
``softplus`` do not (their vector loops end in scalar code). The gates of the recurrence use only the former,
so that they do not depend on how tokens are batched.
"""

import torch
import torch.nn.functional as F
from torch import Tensor

from penny_kernels.cpu.operations import operation


@operation("torch.ops.sgl_kernel")
def fused_sigmoid_mul_cpu(x: Tensor, gate: Tensor) -> Tensor:
    """``x *= sigmoid(gate)`` in place, the output gate of full attention.

    Args:
        x: [tokens, heads * head_dim].
        gate: the same number of elements, [tokens, heads * head_dim] or strided [tokens, heads, head_dim].
    """
    return x.mul_(gate.reshape(x.shape).float().sigmoid())


@operation("torch.ops.sgl_kernel")
def fused_gdn_gating_cpu(
    A_log: Tensor,  # noqa: N803
    a: Tensor,
    b: Tensor,
    dt_bias: Tensor,
) -> tuple[Tensor, Tensor]:
    """Log decay and write strength of each token and value head.

    Args:
        A_log, dt_bias: [heads]; ``a``, ``b``: [tokens, heads].

    Returns:
        (g, beta), each [1, tokens, heads] float32: ``g = -exp(A_log) * softplus(a + dt_bias)``,
        ``beta = sigmoid(b)``.
    """
    # -softplus(x) is logsigmoid(-x).
    g = F.logsigmoid((a.float() + dt_bias).neg_()).mul_(A_log.float().exp())
    return g.unsqueeze(0), F.logsigmoid(b.float()).exp_().unsqueeze(0)


@operation("torch.ops.sgl_kernel")
def fused_qkvzba_split_reshape_cat_contiguous_cpu(
    mixed_qkvz: Tensor, mixed_ba: Tensor, num_k_heads: int, num_v_heads: int, head_k_dim: int, head_v_dim: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Split the two input projections of a gated delta net layer, whose parts lie one after another.

    Args:
        mixed_qkvz: [tokens, q | k | v | z]; ``mixed_ba``: [tokens, b | a].

    Returns:
        (qkv [tokens, q | k | v], z [tokens, num_v_heads, head_v_dim], b and a [tokens, num_v_heads]).
        All four are views of the inputs: nothing downstream writes to them.
    """
    v_dim = num_v_heads * head_v_dim
    # split_with_sizes, not split: no Python in between, at a call per layer and token.
    qkv, z = mixed_qkvz.split_with_sizes((2 * num_k_heads * head_k_dim + v_dim, v_dim), -1)
    b, a = mixed_ba.split_with_sizes((num_v_heads, num_v_heads), -1)
    return qkv, z.view(-1, num_v_heads, head_v_dim), b, a


def fused_gate_sigmoid_mul(hidden_states: Tensor, gate_weight: Tensor, shared_output: Tensor) -> Tensor:
    """``sigmoid(hidden . gate_weight) * shared_output``: the gated shared expert.

    Twin of ``kernels/ops/elementwise/elementwise.py``.

    Args:
        hidden_states, shared_output: [tokens, hidden]; ``gate_weight``: [hidden].
    """
    gate = torch.mv(hidden_states.float(), gate_weight.float()).sigmoid_().unsqueeze(-1)
    return (gate * shared_output).to(shared_output.dtype)


def fused_gate_sigmoid_mul_add(
    hidden_states: Tensor, gate_weight: Tensor, shared_output: Tensor, final_hidden_states: Tensor
) -> None:
    """Add the gated shared expert to the routed experts' output, in place; shapes as above."""
    gate = torch.mv(hidden_states.float(), gate_weight.float()).sigmoid_().unsqueeze(-1)
    final_hidden_states.add_(gate * shared_output)
