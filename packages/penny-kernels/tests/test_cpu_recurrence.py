"""The gated delta rule: against transformers' torch modules, and the same bits however it is batched and
cut.
"""

from itertools import accumulate

import pytest
import torch

from penny_kernels.cpu.gating import fused_gdn_gating_cpu
from penny_kernels.cpu.gdn_recurrence import (
    chunk_gated_delta_rule_cpu,
    fused_sigmoid_gating_delta_rule_update_cpu,
)

LENGTHS = ([1], [7], [200], [63, 64, 65], [200, 1, 7], [7, 200, 63, 1, 64, 65, 33, 90])


class Layer:
    """Random inputs of one layer, as stock hands them over: q, k and v are strided parts of one row."""

    def __init__(self, lengths, ratio, dtype=torch.float32, heads=2, dim=32, state_dtype=torch.float32):
        tokens, self.lengths = sum(lengths), lengths
        self.heads, self.v_heads, self.dim = heads, heads * ratio, dim
        self.row = torch.randn(tokens, (2 * heads + self.v_heads) * dim).to(dtype)
        self.a, self.b = torch.randn(tokens, 2 * self.v_heads).to(dtype).split(self.v_heads, -1)
        self.log, self.bias = torch.randn(self.v_heads), torch.randn(self.v_heads).to(dtype)
        self.pool = torch.randn(len(lengths) + 3, self.v_heads, dim, dim).to(state_dtype)
        self.slots = torch.randperm(len(lengths) + 3)[: len(lengths)].to(torch.int32)

    def qkv(self, tokens):
        row = self.row[tokens]
        sizes = [self.heads * self.dim, self.heads * self.dim, self.v_heads * self.dim]
        return [part.view(1, row.shape[0], -1, self.dim) for part in row.split(sizes, -1)]

    def prefill(self, tokens, lengths, slots, pool):
        cu = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32)
        g, beta = fused_gdn_gating_cpu(self.log, self.a[tokens], self.b[tokens], self.bias)
        return chunk_gated_delta_rule_cpu(*self.qkv(tokens), g, beta, pool, cu, False, True, slots)

    def decode(self, tokens, slots, pool, **verify):
        q, k, v = self.qkv(tokens)
        steps = q.shape[1] // len(slots)
        cu = torch.arange(0, q.shape[1] + 1, steps, dtype=torch.int32)
        return fused_sigmoid_gating_delta_rule_update_cpu(
            A_log=self.log,
            dt_bias=self.bias,
            q=q,
            k=k,
            v=v,
            a=self.a[tokens],
            b=self.b[tokens],
            initial_state_source=pool,
            initial_state_indices=slots,
            cu_seqlens=cu,
            use_qk_l2norm_in_kernel=True,
            **verify,
        )

    def sequences(self):
        start = 0
        for i, length in enumerate(self.lengths):
            yield i, slice(start, start + length)
            start += length


@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("ratio", [1, 2, 3, 4])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_prefill_is_transformers_recurrence(lengths, ratio, dtype):
    module = pytest.importorskip(
        "transformers.models.qwen3_5.modeling_qwen3_5", reason="the reference is transformers' Qwen3.5"
    )
    x = Layer(lengths, ratio, dtype)
    pool = x.pool.clone()
    out, _, h = x.prefill(slice(None), lengths, x.slots, pool)
    assert out.dtype == dtype
    chunk = 0
    for i, tokens in x.sequences():
        q, k, v = (part.repeat_interleave(x.v_heads // part.shape[2], 2) for part in x.qkv(tokens))
        g = -x.log.exp() * torch.nn.functional.softplus(x.a[tokens].float() + x.bias.float())
        beta = x.b[tokens].float().sigmoid()
        for rule in (module.torch_recurrent_gated_delta_rule, module.torch_chunk_gated_delta_rule):
            want, state = rule(
                q.float(),
                k.float(),
                v.float(),
                g[None],
                beta[None],
                initial_state=x.pool[x.slots[i]].mT[None].clone(),
                output_final_state=True,
                use_qk_l2norm_in_kernel=True,
            )
            torch.testing.assert_close(out[:, tokens].float(), want.to(dtype).float(), rtol=1.6e-2, atol=1e-4)
            if dtype == torch.float32:
                torch.testing.assert_close(out[:, tokens], want, rtol=1e-4, atol=2e-5)
            torch.testing.assert_close(pool[x.slots[i]], state[0].mT, rtol=1e-4, atol=5e-5)
        # h holds the states before tokens 0, 64, ...
        for start in range(0, lengths[i], 64):
            again = x.pool.clone()
            if start:
                part = slice(tokens.start, tokens.start + start)
                x.prefill(part, [start], x.slots[i : i + 1], again)
            assert torch.equal(h[0, chunk], again[x.slots[i]])
            chunk += 1
    assert h.shape[1] == chunk
    untouched = [s for s in range(pool.shape[0]) if s not in x.slots.tolist()]
    assert torch.equal(pool[untouched], x.pool[untouched])


@pytest.mark.parametrize("ratio", [1, 2, 3, 4])
def test_a_batch_gives_what_its_sequences_give(ratio):
    lengths = LENGTHS[-1]
    x = Layer(lengths, ratio)
    together, alone = x.pool.clone(), x.pool.clone()
    out = x.prefill(slice(None), lengths, x.slots, together)[0]
    for i, tokens in x.sequences():
        single = x.prefill(tokens, [lengths[i]], x.slots[i : i + 1], alone)[0]
        assert torch.equal(out[:, tokens], single)
    assert torch.equal(together, alone)


@pytest.mark.parametrize("cut", [1, 7, 63, 64, 65, 199])
def test_a_prefix_cut_anywhere_gives_the_same_bits(cut):
    x = Layer([200], 2)
    whole, parts = x.pool.clone(), x.pool.clone()
    out = x.prefill(slice(None), [200], x.slots, whole)[0]
    head = x.prefill(slice(0, cut), [cut], x.slots, parts)[0]
    tail = x.prefill(slice(cut, 200), [200 - cut], x.slots, parts)[0]
    assert torch.equal(torch.cat((head, tail), 1), out)
    assert torch.equal(parts, whole)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_decode_gives_the_bits_of_prefill(dtype):
    x = Layer([65], 2, dtype)
    whole, steps = x.pool.clone(), x.pool.clone()
    out = x.prefill(slice(None), [65], x.slots, whole)[0]
    each = [x.decode(slice(t, t + 1), x.slots, steps) for t in range(65)]
    assert torch.equal(torch.cat(each, 1), out)
    assert torch.equal(steps, whole)


@pytest.mark.parametrize("slots", [[3, 4, 5], [5, 1, 3], [2, -1, 0]])
@pytest.mark.parametrize("state_dtype", [torch.float32, torch.bfloat16])
def test_decode_batch(slots, state_dtype):
    x = Layer([1] * 3, 2, state_dtype=state_dtype)
    slots = torch.tensor(slots, dtype=torch.int32)
    together, alone = x.pool.clone(), x.pool.clone()
    out = x.decode(slice(None), slots, together)
    for i in range(3):
        assert torch.equal(out[:, i : i + 1], x.decode(slice(i, i + 1), slots[i : i + 1], alone))
    assert torch.equal(together, alone)
    changed = {s for s in range(x.pool.shape[0]) if not torch.equal(together[s], x.pool[s])}
    assert changed == {s for s in slots.tolist() if s >= 0}


def test_a_negative_slot_starts_from_nothing():
    x = Layer([7], 2)
    pool = x.pool.clone()
    out = x.prefill(slice(None), [7], torch.tensor([-1]), pool)[0]
    assert torch.equal(pool, x.pool)
    zeros = torch.zeros_like(pool)
    assert torch.equal(out, x.prefill(slice(None), [7], torch.tensor([0]), zeros)[0])


def test_verify_chain_is_prefill_with_every_state_kept():
    x = Layer([5, 5, 5], 3)
    pool, states = x.pool.clone(), torch.full((4, 5, *x.pool.shape[1:]), float("nan"))
    rows = torch.tensor([2, 0, 3, 9], dtype=torch.int32)  # longer than the batch, as stock's table is
    out = x.decode(
        slice(None),
        x.slots,
        pool,
        disable_state_update=True,
        intermediate_states_buffer=states,
        intermediate_state_indices=rows,
        cache_steps=5,
    )
    assert torch.equal(pool, x.pool)
    assert torch.equal(out, x.prefill(slice(None), [5, 5, 5], x.slots, x.pool.clone())[0])
    for i, tokens in x.sequences():
        for step in range(5):
            again = x.pool.clone()
            part = slice(tokens.start, tokens.start + step + 1)
            x.prefill(part, [step + 1], x.slots[i : i + 1], again)
            assert torch.equal(states[rows[i], step], again[x.slots[i]])
    assert states[1].isnan().all()


def test_refusals():
    x = Layer([1], 1)
    with pytest.raises(NotImplementedError, match="is_kda=True"):
        x.decode(slice(None), x.slots, x.pool, is_kda=True)
    with pytest.raises(ValueError, match="head_first=True"):
        chunk_gated_delta_rule_cpu(
            *x.qkv(slice(None)), x.a, x.b, x.pool, torch.tensor([0, 1]), True, True, x.slots
        )


def test_gating_of_large_inputs():
    a = torch.tensor([[-200.0, -30.0, 0.0, 19.0, 21.0, 90.0, 200.0]])
    log = torch.full((7,), -5.0)
    g, beta = fused_gdn_gating_cpu(log, a, a, torch.zeros(7))
    want = -log.double().exp() * torch.nn.functional.softplus(a.double())
    torch.testing.assert_close(g[0].double(), want, rtol=1e-6, atol=1e-12)
    torch.testing.assert_close(beta[0].double(), a.double().sigmoid(), rtol=1e-6, atol=1e-30)
