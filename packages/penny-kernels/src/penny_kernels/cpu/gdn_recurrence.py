"""The gated delta rule as a plain recurrence over time, batched over sequences.

Per value head, with state S [V, K], decay d and write strength beta (arXiv 2412.06464)::

    u = beta * (v - d * S k)
    o = scale * (S q * d + (k . q) * u)
    S = d * S + u k^T

which is the update followed by the reading ``o = scale * S q``, with both products of the old state in one
pass over it. Prefill, decode and verification run the same four operations per step on the same shapes, so a
prefix cut anywhere, and a sequence run alone or in a batch, give the same floats (tested for head dims that
are multiples of 32).
"""

from collections.abc import Callable
from itertools import pairwise

import torch
from torch import Tensor

from penny_kernels.cpu.gating import fused_gdn_gating_cpu
from penny_kernels.cpu.operations import operation
from penny_kernels.cpu.ragged import TimeMajor, one_token_each, time_major
from penny_kernels.cpu.state_slots import copy_all, load_slots, store_slots

CHUNK = 64
"""Tokens between the states that the prefill hands back for prefix tracking."""

_L2_EPS = 1e-6

StepHook = Callable[[int, Tensor], None]


def _recur(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    state: Tensor,
    active: list[int],
    l2norm: bool,
    before: StepHook | None = None,
    after: StepHook | None = None,
) -> Tensor:
    """Advance ``state`` [sequences, HV, V, K] float32 in place over tokens in time-major order.

    Args:
        q, k: [1, tokens, H, K]; ``v``: [1, tokens, HV, V]; ``g``, ``beta``: [1, tokens, HV] float32.
        active: how many of the sequences each step advances.
        before, after: called at each step with its number and the states that it advances.

    Returns:
        [1, tokens, HV, V] float32.
    """
    k_heads, k_dim = k.shape[2:]
    v_heads, v_dim = v.shape[2:]
    ratio = v_heads // k_heads
    kq = torch.stack((k, q), 3).view(-1, 2, k_dim).float()
    if l2norm:
        kq *= (kq * kq).sum(-1, keepdim=True).add_(_L2_EPS).rsqrt_()
    k_row, q_row = kq.split_with_sizes((1, 1), 1)
    dot = (k_row * q_row).sum(-1).view(-1, 1, 1, 1)
    # From here on [tokens * k_heads, value heads per key head, v_dim, k_dim], 1 for what a factor lacks.
    decay = g.exp().view(-1, ratio, 1, 1)
    beta = beta.view(-1, ratio, 1, 1)
    write_decay = decay * beta
    new = v.reshape(-1, ratio, v_dim, 1) * beta
    k_row = k_row.unsqueeze(1)
    read = new.new_empty(kq.shape[0], 2, ratio * v_dim)
    read_k, read_q = read.view(-1, 2, ratio, v_dim, 1).unbind(1)
    written = torch.empty_like(new)

    # The value heads of one key head are more rows of its state.
    by_head = state.view(-1, ratio, v_dim, k_dim)
    transposed = state.view(-1, ratio * v_dim, k_dim).transpose(1, 2)
    parts = (kq, k_row, decay, new, write_decay, read, read_k, written)
    sizes = [n * k_heads for n in active]
    live = state.shape[0]
    for step, (n, *part) in enumerate(zip(active, *(_split(x, sizes) for x in parts), strict=True)):
        kq_t, k_t, decay_t, new_t, write_t, read_t, read_k_t, u_t = part
        if n != live:
            live, rows = n, n * k_heads
            state, by_head, transposed = state[:n], by_head[:rows], transposed[:rows]
        if before is not None:
            before(step, state)
        torch.bmm(kq_t, transposed, out=read_t)
        torch.addcmul(new_t, write_t, read_k_t, value=-1, out=u_t)
        by_head.mul_(decay_t)
        by_head.addcmul_(u_t, k_t)
        if after is not None:
            after(step, state)
    return (read_q * decay).addcmul_(dot, written).mul_(k_dim**-0.5).view(v.shape)


def _split(x: Tensor, sizes: list[int]) -> tuple[Tensor, ...]:
    return (x,) if len(sizes) == 1 else x.split(sizes)


def _advance(
    plan: TimeMajor,
    inputs: tuple[Tensor, Tensor, Tensor, Tensor, Tensor],
    pool: Tensor,
    slots: list[int],
    update: bool,
    l2norm: bool,
    before: StepHook | None = None,
    after: StepHook | None = None,
) -> Tensor:
    """Run the recurrence on the slots' states, in the pool's own memory where that can be."""
    slots = [slots[i] for i in plan.order]
    state, own = load_slots(pool, slots)
    if (own and not update) or state.dtype != torch.float32 or not state.is_contiguous():
        copy = torch.empty_like(state, dtype=torch.float32, memory_format=torch.contiguous_format)
        state, own = copy.copy_(state), False
    q, k, v, g, beta = (plan.arrange(x) for x in inputs)
    out = _recur(q, k, v, g, beta, state, plan.active, l2norm, before, after)
    if update and not own:
        store_slots(pool, slots, state)
    return plan.restore(out.to(q.dtype))


@operation("sgl_kernel.mamba")
def chunk_gated_delta_rule_cpu(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    g: Tensor,
    beta: Tensor,
    initial_state: Tensor,
    cu_seqlens: Tensor,
    head_first: bool,
    use_qk_l2norm_in_kernel: bool,
    initial_state_indices: Tensor,
) -> tuple[Tensor, None, Tensor]:
    """Gated delta rule over whole sequences (prefill); the state pool is read and updated in place.

    Args:
        q, k: [1, tokens, H, K]; ``v``: [1, tokens, HV, V], HV a multiple of H; may be strided.
        g, beta: [1, tokens, HV] float32, log decay and write strength.
        initial_state: the pool, [slots, HV, V, K].
        cu_seqlens: [sequences + 1]; sequence i is tokens ``[cu_seqlens[i], cu_seqlens[i + 1])``.
        head_first: must be False.
        use_qk_l2norm_in_kernel: normalise q and k per head first.
        initial_state_indices: [sequences], the pool slots; a negative slot starts at zero and is not written.

    Returns:
        (o [1, tokens, HV, V] in the dtype of ``q``, None,
        h [1, chunks, HV, V, K] in the pool's dtype: each sequence's states before its tokens 0, 64, 128, ...,
        ``ceil(length / 64)`` per sequence, which is what prefix tracking indexes).

    Raises:
        ValueError: for ``head_first=True``.
    """
    if head_first:
        raise ValueError(
            "chunk_gated_delta_rule_cpu found head_first=True; it takes [1, tokens, heads, dim]."
        )
    bounds = cu_seqlens.tolist()
    plan = time_major(bounds)
    chunks = [-(-(end - start) // CHUNK) for start, end in pairwise(bounds)]
    first = [sum(chunks[:i]) for i in plan.order]
    h = initial_state.new_empty(1, sum(chunks), *initial_state.shape[1:])

    def keep(step: int, state: Tensor) -> None:
        if step % CHUNK == 0:
            h[0, [row + step // CHUNK for row in first[: state.shape[0]]]] = state.to(h.dtype)

    inputs = (q, k, v, g, beta)
    slots = initial_state_indices.tolist()
    return _advance(plan, inputs, initial_state, slots, True, use_qk_l2norm_in_kernel, before=keep), None, h


@operation("torch.ops.sgl_kernel")
def fused_sigmoid_gating_delta_rule_update_cpu(
    A_log: Tensor,  # noqa: N803
    dt_bias: Tensor,
    q: Tensor,
    k: Tensor,
    v: Tensor,
    a: Tensor,
    b: Tensor,
    initial_state_source: Tensor,
    initial_state_indices: Tensor,
    cu_seqlens: Tensor,
    use_qk_l2norm_in_kernel: bool = True,
    softplus_beta: float = 1.0,
    softplus_threshold: float = 20.0,
    is_kda: bool = False,
    disable_state_update: bool = False,
    intermediate_states_buffer: Tensor | None = None,
    intermediate_state_indices: Tensor | None = None,
    cache_steps: int | None = None,
    retrieve_parent_token: Tensor | None = None,
) -> Tensor:
    """Gating and gated delta rule in one: one token per sequence (decode) or its draft tokens (verification).

    Twin of ``kernels/ops/attention/linear/fused_sigmoid_gating_recurrent.py``.

    Args:
        A_log, dt_bias: [HV]; ``a``, ``b``: [tokens, HV].
        q, k, v, initial_state_source, initial_state_indices, cu_seqlens: as in the chunk form.
        disable_state_update: leave the pool as it is (verification).
        intermediate_states_buffer: [rows, steps, HV, V, K]; receives the state after each draft token at
            ``[intermediate_state_indices[i], step]``; a negative row is skipped. ``cache_steps`` is not
            needed.
        retrieve_parent_token: [sequences, steps]; a draft token after the first starts from its parent's
            state, read back from the buffer (a tree). None: each token follows the one before it (a chain).

    Returns:
        [1, tokens, HV, V] in the dtype of ``q``.

    Raises:
        NotImplementedError: for the KDA form, or a softplus other than beta 1, threshold 20.
    """
    if is_kda or softplus_beta != 1.0 or softplus_threshold != 20.0:
        raise NotImplementedError(
            "fused_sigmoid_gating_delta_rule_update_cpu serves gated delta nets with softplus beta 1 and "
            f"threshold 20; found is_kda={is_kda}, beta {softplus_beta}, threshold {softplus_threshold}."
        )
    sequences = cu_seqlens.shape[0] - 1
    plan = one_token_each(sequences) if q.shape[1] == sequences else time_major(cu_seqlens.tolist())
    before = after = None
    if intermediate_states_buffer is not None:
        assert intermediate_state_indices is not None
        before, after = _draft_hooks(
            intermediate_states_buffer,
            intermediate_state_indices[plan.order].tolist(),
            None if retrieve_parent_token is None else retrieve_parent_token[plan.order].tolist(),
        )
    g, beta = fused_gdn_gating_cpu(A_log, a, b, dt_bias)
    inputs, slots, update = (q, k, v, g, beta), initial_state_indices.tolist(), not disable_state_update
    return _advance(plan, inputs, initial_state_source, slots, update, use_qk_l2norm_in_kernel, before, after)


def _draft_hooks(
    buffer: Tensor, rows: list[int], parents: list[list[int]] | None
) -> tuple[StepHook | None, StepHook]:
    """What keeps each draft token's state in ``buffer``, and what fetches its parent's from there."""

    def keep(step: int, state: Tensor) -> None:
        states = zip(rows, state.unbind(), strict=False)
        copy_all([(buffer[row, step], source) for row, source in states if row >= 0])

    def restore(step: int, state: Tensor) -> None:
        if step and parents is not None:
            states = zip(rows, parents, state.unbind(), strict=False)
            copy_all([(target, buffer[row, parent[step]]) for row, parent, target in states if row >= 0])

    return None if parents is None else restore, keep
