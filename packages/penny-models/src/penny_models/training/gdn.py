"""The chunked gated delta rule for training: batched matrix products and one short loop over chunks.

Same mathematics as ``torch_chunk_gated_delta_rule`` of transformers' Qwen3.5 module (Yang et al.,
"Gated Delta Networks", 2024). Three things differ for speed: the triangular inverse is built by block
recursion with a closed-form gradient, outputs are read after the loop for all chunks at once, and the
loop over chunks is two fused products per step.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

CHUNK = 64


def inverse_unit_lower(matrix: Tensor) -> Tensor:
    """Invert unit lower triangular matrices [..., n, n], n a power of two.

    Blocks of size s are merged to 2s: inv([[A, 0], [B, C]]) = [[inv A, 0], [-inv C @ B @ inv A, inv C]].
    Entries on and above the diagonal are not read.
    """
    size = matrix.shape[-1]
    flat = matrix.reshape(-1, size, size)
    inverse = torch.eye(size, dtype=matrix.dtype, device=matrix.device).expand_as(flat).clone()
    span = 1
    while span < size:
        pairs = size // (2 * span)
        shape = (flat.shape[0], pairs, 2 * span, pairs, 2 * span)
        every = torch.arange(pairs, device=matrix.device)
        blocks = flat.view(shape)[:, every, :, every, :]
        done = inverse.view(shape)[:, every, :, every, :]
        below = blocks[..., span:, :span]
        merged = -done[..., span:, span:] @ below @ done[..., :span, :span]
        done[..., span:, :span] = merged
        inverse.view(shape)[:, every, :, every, :] = done
        span *= 2
    return inverse.view(matrix.shape)


class _Inverse(torch.autograd.Function):
    """``inverse_unit_lower`` with the gradient -inv^T @ grad @ inv^T below the diagonal."""

    @staticmethod
    def forward(ctx: Any, matrix: Tensor) -> Tensor:
        inverse = inverse_unit_lower(matrix)
        ctx.save_for_backward(inverse)
        return inverse

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (inverse,) = ctx.saved_tensors
        turned = inverse.transpose(-1, -2)
        gradient: Tensor = -(turned @ grads[0] @ turned)
        return gradient.tril(-1)


def _normalise(x: Tensor) -> Tensor:
    return x * torch.rsqrt((x * x).sum(-1, keepdim=True) + 1e-6)


def _chunks(x: Tensor) -> Tensor:
    """Turn [B, T, H, D] into [chunks, B * H, CHUNK, D]."""
    batch, length, heads, width = x.shape
    x = x.view(batch, length // CHUNK, CHUNK, heads, width).permute(1, 0, 3, 2, 4)
    return x.reshape(length // CHUNK, batch * heads, CHUNK, width)


def chunk_gated_delta_rule(
    query: Tensor, key: Tensor, value: Tensor, g: Tensor, beta: Tensor, **options: Any
) -> tuple[Tensor, None]:
    """Run the gated delta rule from a zero state, in float32.

    Args:
        query: [B, T, H, K]; normalised and scaled by K ** -0.5 here. T must be a multiple of 64.
        key: [B, T, H, K]; normalised here.
        value: [B, T, H, V].
        g: [B, T, H], log of the decay, at most 0.
        beta: [B, T, H], write strength.
        options: what transformers' layer passes besides; states in or out are refused.

    Returns:
        The output [B, T, H, V] in the dtype of ``query``, and None in place of the last state.
    """
    if options.get("initial_state") is not None or options.get("output_final_state"):
        raise ValueError("The training form of the gated delta rule keeps no state; use transformers' own.")
    batch, length, heads, width = value.shape
    if length % CHUNK:
        raise ValueError(f"The sequence length must be a multiple of {CHUNK}; it is {length}.")
    with torch.autocast(query.device.type, enabled=False):
        q, k, v = (_chunks(x.float()) for x in (query, key, value))
        decay, strength = (_chunks(x.float().unsqueeze(-1)) for x in (g, beta))
        q, k = _normalise(q) * q.shape[-1] ** -0.5, _normalise(k)
        total = decay.cumsum(2)
        later = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=q.device).triu(1)
        between = (total - total.transpose(-1, -2)).masked_fill(later, float("-inf")).exp()
        solve = _Inverse.apply((k * strength) @ k.transpose(-1, -2) * between)
        written = solve @ (v * strength)
        read = solve @ (k * strength * total.exp())
        attention = q @ k.transpose(-1, -2) * between
        last = total[:, :, -1:]
        into = (k * (last - total).exp()).transpose(-1, -2)
        keep = last.exp()

        state = q.new_zeros(batch * heads, q.shape[-1], width)
        states: list[Tensor] = []
        news: list[Tensor] = []
        for chunk_written, chunk_read, chunk_into, chunk_keep in zip(
            written.unbind(), read.unbind(), into.unbind(), keep.unbind(), strict=True
        ):
            states.append(state)
            new = torch.baddbmm(chunk_written, chunk_read, state, alpha=-1)
            news.append(new)
            state = torch.baddbmm(state * chunk_keep, chunk_into, new)
        out = (q * total.exp()) @ torch.stack(states) + attention @ torch.stack(news)
    out = out.view(length // CHUNK, batch, heads, CHUNK, width).permute(1, 0, 3, 2, 4)
    return out.reshape(batch, length, heads, width).to(query.dtype), None


def with_state(stock: Callable[..., Any]) -> Callable[..., Any]:
    """Return a rule that is ``chunk_gated_delta_rule`` where it can be, and ``stock`` with states or a torn chunk."""

    def rule(query: Tensor, *args: Any, **options: Any) -> Any:
        states = options.get("initial_state") is not None or options.get("output_final_state")
        chosen = stock if states or query.shape[1] % CHUNK else chunk_gated_delta_rule
        return chosen(query, *args, **options)

    return rule
