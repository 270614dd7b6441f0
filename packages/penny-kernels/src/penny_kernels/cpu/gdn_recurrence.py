"""The gated delta rule as a plain recurrence over time, batched over sequences.

Per value head, with state S [V, K], decay d, write strength beta (arXiv 2412.06464)::

    u = beta * (v - d * S k)
    S = d * S + u k^T
    o = S q = d * (S_old q) + (k . q) u

Prefill, decode and verification run the same four operations per step on the same shapes, so a prefix that is cut
anywhere, and a sequence that is run alone or in a batch, give the same floats.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from penny_kernels.cpu.gating import fused_gdn_gating_cpu
from penny_kernels.cpu.ragged import time_major

CHUNK = 64
"""Tokens between the states that the prefill hands back for prefix tracking."""

_L2_EPS = 1e-6

StepHook = Callable[[int, Tensor], None]


class _Tokens:
    """All that a step needs of its tokens, computed once for all of them (float32)."""

    def __init__(
        self, q: Tensor, k: Tensor, v: Tensor, g: Tensor, beta: Tensor, order: Tensor | None, l2norm: bool
    ) -> None:
        tokens, k_heads, k_dim = k.shape[1:]
        v_heads, v_dim = v.shape[2:]
        kq = torch.stack((k[0], q[0]), 2).float()
        if order is not None:
            kq, v, g, beta = kq[order], v[:, order], g[:, order], beta[:, order]
        if l2norm:
            # rms_norm divides by the mean square: sqrt(K) too much, which the weight takes back out.
            kq = F.rms_norm(kq, (k_dim,), None, _L2_EPS / k_dim).mul_(k_dim**-0.5)
        kq[:, :, 1].mul_(k_dim**-0.5)
        self.rows = v_heads // k_heads * v_dim
        decay = g.float().exp().view(tokens, v_heads, 1)
        self.dot = torch.linalg.vecdot(kq[:, :, 0], kq[:, :, 1]).view(tokens, k_heads, 1, 1)
        self.kq = kq.view(tokens * k_heads, 2, k_dim)
        self.decay = decay.view(tokens * v_heads, 1, 1)
        scaled = beta.float().view(tokens, v_heads, 1)
        self.v = (v[0].float() * scaled).view(tokens * k_heads, 1, self.rows)
        shape = (tokens, v_heads, v_dim)
        self.write_decay = (decay * scaled).expand(shape).reshape(tokens * k_heads, 1, self.rows)
        self.shape = shape


def _run(x: _Tokens, state: Tensor, active: list[int], before: StepHook | None, after: StepHook | None) -> Tensor:
    """Advance ``state`` [sequences, HV, V, K] float32 in place; return outputs [tokens, HV, V] in step order."""
    tokens, v_heads, v_dim = x.shape
    k_dim = state.shape[-1]
    k_heads = x.kq.shape[0] // tokens
    read = x.v.new_empty(tokens * k_heads, 2, x.rows)
    written = torch.empty_like(x.v)
    by_k_head = state.view(-1, x.rows, k_dim)
    by_k_head_t = by_k_head.transpose(1, 2)
    by_v_head = state.view(-1, v_dim, k_dim)
    k_sizes = [n * k_heads for n in active]
    parts = zip(
        active,
        x.kq.split(k_sizes),
        x.kq[:, :1].split(k_sizes),
        x.decay.split([n * v_heads for n in active]),
        x.v.split(k_sizes),
        x.write_decay.split(k_sizes),
        read.split(k_sizes),
        read[:, :1].split(k_sizes),
        written.split(k_sizes),
        written.transpose(1, 2).split(k_sizes),
        strict=True,
    )
    live = -1
    for step, (n, kq, k, decay, v, write_decay, r, r_k, u, u_t) in enumerate(parts):
        if n != live:
            live = n
            s, s_t, s_v = by_k_head[: n * k_heads], by_k_head_t[: n * k_heads], by_v_head[: n * v_heads]
        if before is not None:
            before(step, state[:n])
        torch.bmm(kq, s_t, out=r)
        torch.addcmul(v, write_decay, r_k, value=-1, out=u)
        s_v.mul_(decay)
        s.addcmul_(u_t, k)
        if after is not None:
            after(step, state[:n])
    read_q = read.view(tokens, k_heads, 2, -1, v_dim)[:, :, 1]
    out = x.dot * written.view(tokens, k_heads, -1, v_dim)
    return out.addcmul_(x.decay.view(tokens, k_heads, -1, 1), read_q).view(x.shape)


def _is_run(slots: list[int]) -> bool:
    return slots[0] >= 0 and slots == list(range(slots[0], slots[0] + len(slots)))


def _load(pool: Tensor, slots: list[int]) -> tuple[Tensor, bool]:
    """States of ``slots`` as contiguous float32, and whether they are the pool's own memory."""
    if pool.dtype == torch.float32 and pool.is_contiguous() and _is_run(slots):
        return pool[slots[0] : slots[0] + len(slots)], True
    state = pool[torch.tensor(slots)].float()
    for row, slot in enumerate(slots):
        if slot < 0:
            state[row] = 0
    return state, False


def _store(pool: Tensor, slots: list[int], state: Tensor) -> None:
    if min(slots) < 0:
        kept = [row for row, slot in enumerate(slots) if slot >= 0]
        slots, state = [slots[row] for row in kept], state[kept]
    pool[torch.tensor(slots, dtype=torch.int64)] = state.to(pool.dtype)


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
        g, beta: [1, tokens, HV], log decay and write strength.
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
        raise ValueError("chunk_gated_delta_rule_cpu found head_first=True and expects [1, tokens, heads, dim].")
    bounds = cu_seqlens.tolist()
    slots = initial_state_indices[: len(bounds) - 1].tolist()
    plan = time_major(bounds)
    ordered_slots = [slots[i] for i in plan.order]
    x = _Tokens(q, k, v, g, beta, plan.tokens, use_qk_l2norm_in_kernel)
    chunks = [-(-(end - start) // CHUNK) for start, end in zip(bounds, bounds[1:], strict=False)]
    first = [sum(chunks[:i]) for i in plan.order]
    h = initial_state.new_empty(1, sum(chunks), *initial_state.shape[1:])

    def keep(step: int, state: Tensor) -> None:
        if step % CHUNK == 0:
            rows = [first[i] + step // CHUNK for i in range(state.shape[0])]
            h[0, rows] = state.to(h.dtype)

    state, in_place = _load(initial_state, ordered_slots)
    out = _run(x, state, plan.active, keep, None)
    if not in_place:
        _store(initial_state, ordered_slots, state)
    o = torch.empty_like(out, dtype=q.dtype)
    if plan.tokens is None:
        o.copy_(out)
    else:
        o[plan.tokens] = out.to(q.dtype)
    return o.unsqueeze(0), None, h


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
        q, k, v, initial_state_source, initial_state_indices, cu_seqlens: as in the chunk form. For slots < 0 the state
            is zero and is not written.
        disable_state_update: leave the pool as it is (verification).
        intermediate_states_buffer: [rows, steps, HV, V, K]; receives the state after each draft token at
            ``[intermediate_state_indices[i], step]``; a negative row is skipped.
        retrieve_parent_token: [sequences, steps]; a draft token after the first starts from its parent's state, read
            back from the buffer (a tree). None: each token follows the one before it (a chain).

    Returns:
        [1, tokens, HV, V] in the dtype of ``q``.

    Raises:
        NotImplementedError: for the KDA form, or a softplus other than beta 1, threshold 20.
    """
    if is_kda or softplus_beta != 1.0 or softplus_threshold != 20.0:
        raise NotImplementedError(
            "fused_sigmoid_gating_delta_rule_update_cpu serves gated delta nets with softplus beta 1 and threshold 20; "
            f"found is_kda={is_kda}, beta {softplus_beta}, threshold {softplus_threshold}."
        )
    tokens = q.shape[1]
    sequences = cu_seqlens.shape[0] - 1
    slots = initial_state_indices[:sequences].tolist()
    g, beta = fused_gdn_gating_cpu(A_log, a.reshape(tokens, -1), b.reshape(tokens, -1), dt_bias)
    if intermediate_states_buffer is None and tokens == sequences:
        order, active, moved = list(range(sequences)), [sequences], None
    else:
        plan = time_major(cu_seqlens.tolist())
        order, active, moved = plan.order, plan.active, plan.tokens
        slots = [slots[i] for i in order]
    x = _Tokens(q, k, v, g, beta, moved, use_qk_l2norm_in_kernel)
    state, in_place = _load(initial_state_source, slots)
    if in_place and disable_state_update:
        state, in_place = state.clone(), False
    before = after = None
    if intermediate_states_buffer is not None:
        assert intermediate_state_indices is not None
        before, after = _draft_hooks(
            intermediate_states_buffer, intermediate_state_indices[:sequences][order], retrieve_parent_token, order
        )
    out = _run(x, state, active, before, after)
    if not in_place and not disable_state_update:
        _store(initial_state_source, slots, state)
    if moved is None:
        return out.to(q.dtype).unsqueeze(0)
    o = torch.empty_like(out, dtype=q.dtype)
    o[moved] = out.to(q.dtype)
    return o.unsqueeze(0)


def _draft_hooks(
    buffer: Tensor, rows: Tensor, parents: Tensor | None, order: list[int]
) -> tuple[StepHook | None, StepHook]:
    rows = rows.to(torch.int64)
    skipped = bool((rows < 0).any())

    def keep(step: int, state: Tensor) -> None:
        n = state.shape[0]
        if skipped:
            kept = rows[:n] >= 0
            buffer[rows[:n][kept], step] = state[kept].to(buffer.dtype)
        else:
            buffer[rows[:n], step] = state.to(buffer.dtype)

    if parents is None:
        return None, keep
    from_parent = parents[: len(order)][order].to(torch.int64)

    def restore(step: int, state: Tensor) -> None:
        if step == 0:
            return
        n = state.shape[0]
        parent_states = buffer[rows[:n].clamp(min=0), from_parent[:n, step]].float()
        if skipped:
            kept = rows[:n] >= 0
            state[kept] = parent_states[kept]
        else:
            state.copy_(parent_states)

    return restore, keep
