"""The causal convolution against a float64 sum of taps and transformers' update, and its state handling."""

from itertools import accumulate

import pytest
import torch

from penny_kernels.cpu.causal_conv1d import causal_conv1d_fn_cpu, causal_conv1d_update_cpu

WIDTH, DIM = 4, 64


def reference(x, state, weight, bias, silu=True):
    """x [tokens, dim] after state [dim, width - 1], in float64; (out [tokens, dim], new state)."""
    inputs = torch.cat((state.double(), x.double().T), 1)
    out = torch.empty_like(x, dtype=torch.float64)
    for t in range(x.shape[0]):
        out[t] = (inputs[:, t : t + weight.shape[1]] * weight.double()).sum(1)
    if bias is not None:
        out += bias.double()
    return out / (1 + (-out).exp()) if silu else out, inputs[:, x.shape[0] :]


class Layer:
    def __init__(self, lengths, dtype=torch.float32, state_dtype=torch.float32, bias=False):
        # A part of a wider row, as the projection's split hands it over.
        self.x = torch.randn(sum(lengths), DIM + 32).to(dtype)[:, :DIM]
        self.weight = torch.randn(DIM, WIDTH).to(dtype)
        self.bias = torch.randn(DIM).to(dtype) if bias else None
        self.pool = torch.randn(len(lengths) + 2, DIM, WIDTH - 1).to(state_dtype)
        self.slots = torch.randperm(len(lengths) + 2)[: len(lengths)].to(torch.int32)

    def prefill(self, tokens, lengths, slots, pool, initial=None, activation="silu"):
        cu = torch.tensor([0, *accumulate(lengths)], dtype=torch.int32)
        initial = torch.ones(len(lengths), dtype=torch.bool) if initial is None else initial
        x = self.x[tokens].transpose(0, 1)
        out = causal_conv1d_fn_cpu(x, self.weight, self.bias, activation, pool, initial, slots, cu, lengths)
        return out.transpose(0, 1)


@pytest.mark.parametrize("lengths", [[1], [2], [200], [1, 7, 2], [63, 64, 65], [3, 1, 200, 2, 7, 64, 1, 5]])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("bias", [False, True])
def test_prefill(lengths, dtype, bias):
    x = Layer(lengths, dtype, bias=bias)
    pool = x.pool.clone()
    initial = torch.rand(len(lengths)) > 0.4
    out = x.prefill(slice(None), lengths, x.slots, pool, initial, "silu" if bias else None)
    assert out.dtype == dtype
    assert out.is_contiguous()
    start = 0
    for i, length in enumerate(lengths):
        before = x.pool[x.slots[i]] * initial[i]
        want, state = reference(x.x[start : start + length], before, x.weight, x.bias, bias)
        tolerance = (
            {"rtol": 1.6e-2, "atol": 1e-2} if dtype == torch.bfloat16 else {"rtol": 1e-5, "atol": 1e-5}
        )
        torch.testing.assert_close(out[start : start + length].double(), want, **tolerance)
        torch.testing.assert_close(pool[x.slots[i]].double(), state, rtol=0, atol=0)
        start += length


@pytest.mark.parametrize("cut", [1, 2, 3, 63, 64, 199])
def test_cut_batched_and_stepped_give_the_same_bits(cut):
    lengths = [200, 7, 64]
    x = Layer(lengths)
    whole, parts, steps = x.pool.clone(), x.pool.clone(), x.pool.clone()
    out = x.prefill(slice(None), lengths, x.slots, whole)[:200]
    slot = x.slots[:1]
    head = x.prefill(slice(0, cut), [cut], slot, parts)
    tail = x.prefill(slice(cut, 200), [200 - cut], slot, parts)
    assert torch.equal(torch.cat((head, tail)), out)
    assert torch.equal(parts[slot], whole[slot])
    each = [causal_conv1d_update_cpu(x.x[t : t + 1], steps, x.weight, None, "silu", slot) for t in range(200)]
    assert torch.equal(torch.cat(each), out)
    assert torch.equal(steps[slot], whole[slot])


@pytest.mark.parametrize("slots", [[4], [1, 2, 3], [4, 0, 2], [3, -1, 1], [7, 6, 5, 4, 3, 2, 1, 0]])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_decode_is_transformers_update(slots, dtype):
    module = pytest.importorskip(
        "transformers.models.qwen3_5.modeling_qwen3_5", reason="the reference is transformers' Qwen3.5"
    )
    x = Layer([1] * len(slots), dtype)
    pool = torch.randn(9, DIM, WIDTH - 1)
    before = pool.clone()
    out = causal_conv1d_update_cpu(x.x, pool, x.weight, None, "silu", torch.tensor(slots, dtype=torch.int32))
    assert out.dtype == dtype
    for i, slot in enumerate(slots):
        state = before[slot].clone() if slot >= 0 else torch.zeros(DIM, WIDTH - 1)
        state = state[None]
        want = module.causal_conv1d_update(
            x.x[i : i + 1].float().unsqueeze(-1), state, x.weight.float(), activation="silu"
        )
        torch.testing.assert_close(out[i].float(), want[0, :, 0].to(dtype).float(), rtol=1.6e-2, atol=1e-5)
        if slot >= 0:
            assert torch.equal(pool[slot], state[0])
    others = [s for s in range(9) if s not in slots]
    assert torch.equal(pool[others], before[others])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_verify_chain_keeps_each_window(dtype):
    x = Layer([5, 5, 5], dtype)
    pool, windows = x.pool.clone(), torch.full((4, 6, DIM, WIDTH - 1), float("nan"))
    rows = torch.tensor([3, 0, 1])
    out = causal_conv1d_update_cpu(
        x.x.view(3, 5, DIM).transpose(1, 2), pool, x.weight, None, "silu", x.slots, windows, rows
    )
    again = x.pool.clone()
    assert torch.equal(
        out.transpose(1, 2).reshape(15, DIM), x.prefill(slice(None), [5, 5, 5], x.slots, again)
    )
    assert torch.equal(pool, again)
    for i in range(3):
        for step in range(5):
            state = torch.cat((x.pool[x.slots[i]], x.x[5 * i : 5 * i + step + 1].float().T), 1)[:, -3:]
            assert torch.equal(windows[rows[i], step], state)
    assert windows[:, 5].isnan().all()
    assert windows[2].isnan().all()


def test_verify_tree_follows_the_ancestors():
    # 0 -> (1, 2), 1 -> 3, 2 -> 4: the path to 4 is 0, 2, 4.
    x = Layer([5])
    first = torch.tensor([[1, 3, 4, -1, -1]])
    sibling = torch.tensor([[-1, 2, -1, -1, -1]])
    parent = torch.full((1, 5), -7)
    out = causal_conv1d_update_cpu(
        x.x.T[None],
        x.pool.clone(),
        x.weight,
        None,
        "silu",
        x.slots,
        torch.zeros(1, 5, DIM, 3),
        torch.tensor([0]),
        first,
        sibling,
        parent,
    )
    assert parent.tolist() == [[0, 0, 0, 1, 2]]
    for path in ([0, 1, 3], [0, 2, 4]):
        want, _ = reference(x.x[path], x.pool[x.slots[0]], x.weight, None)
        torch.testing.assert_close(out[0].T[path].double(), want, rtol=1e-5, atol=1e-5)
