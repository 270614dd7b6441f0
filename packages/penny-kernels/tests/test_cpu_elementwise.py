"""Norms, gates and splits against transformers' modules and float64 formulas."""

import pytest
import torch

from penny_kernels import cpu
from penny_kernels.cpu.gating import fused_qkvzba_split_reshape_cat_contiguous_cpu, fused_sigmoid_mul_cpu
from penny_kernels.cpu.norms import (
    fused_qk_gemma_rmsnorm_cpu,
    fused_qk_gemma_rmsnorm_with_gate_cpu,
    gemma_rmsnorm,
    l2norm_cpu,
)

DTYPES = [torch.float32, torch.bfloat16]
TOLERANCE = {torch.float32: {"rtol": 2e-6, "atol": 1e-6}, torch.bfloat16: {"rtol": 8e-3, "atol": 1e-2}}


def rms(x, eps):
    x = x.double()
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt()


@pytest.mark.parametrize("tokens", [1, 7, 65])
@pytest.mark.parametrize(("heads", "kv_heads", "dim"), [(4, 4, 16), (4, 2, 24), (8, 2, 128)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_qk_norms(tokens, heads, kv_heads, dim, dtype):
    row = torch.randn(tokens, (2 * heads + 2 * kv_heads) * dim).to(dtype)
    q_gate, k, _ = row.split([2 * heads * dim, kv_heads * dim, kv_heads * dim], -1)
    q_weight, k_weight = torch.randn(2, dim).to(dtype)
    q, k_out, gate = fused_qk_gemma_rmsnorm_with_gate_cpu(q_gate, k, q_weight, k_weight, 1e-6, dim, heads)
    pairs = q_gate.view(tokens, heads, 2, dim)
    want_q = rms(pairs[:, :, 0], 1e-6) * (1 + q_weight.double())
    want_k = rms(k.reshape(tokens, kv_heads, dim), 1e-6) * (1 + k_weight.double())
    for got, want in ((q, want_q), (k_out, want_k)):
        assert got.dtype == dtype
        # Stock views each as [tokens, heads * dim].
        torch.testing.assert_close(
            got.view(tokens, -1).double(), want.reshape(tokens, -1), **TOLERANCE[dtype]
        )
    assert torch.equal(gate.view(tokens, heads, dim), pairs[:, :, 1])
    plain_q = q_gate[:, : heads * dim]
    q, k_again = fused_qk_gemma_rmsnorm_cpu(plain_q, k, q_weight, k_weight, 1e-6, dim)
    want_q = rms(plain_q.reshape(-1, dim), 1e-6) * (1 + q_weight.double())
    torch.testing.assert_close(q.double(), want_q, **TOLERANCE[dtype])
    assert torch.equal(k_again, k_out)


@pytest.mark.parametrize("rows", [1, 7, 65])
@pytest.mark.parametrize("dtype", DTYPES)
def test_norms_are_those_of_transformers(rows, dtype):
    module = pytest.importorskip(
        "transformers.models.qwen3_5.modeling_qwen3_5", reason="the reference is transformers' Qwen3.5"
    )
    x, z = torch.randn(2, rows, 48).to(dtype)
    gated, gemma = module.Qwen3_5RMSNormGated(48, eps=1e-6), module.Qwen3_5RMSNorm(48, eps=1e-6)
    with torch.no_grad():
        gated.weight.copy_(torch.randn(48))
        gemma.weight.copy_(torch.randn(48))
        gated, gemma = gated.to(dtype), gemma.to(dtype)
        got = cpu.fused_rmsnorm_gated_cpu(x, gated.weight, z, 1e-6)
        # Its gated norm rounds to bfloat16 once more, before the weight.
        slack = {"rtol": 2e-2, "atol": 3e-2} if dtype == torch.bfloat16 else TOLERANCE[dtype]
        torch.testing.assert_close(got, gated(x, z), **slack)
        torch.testing.assert_close(gemma_rmsnorm(x, gemma.weight, 1e-6), gemma(x), **TOLERANCE[dtype])
    want = rms(x, 1e-6) * gated.weight.double() * z.double() * z.double().sigmoid()
    torch.testing.assert_close(got.double(), want, **TOLERANCE[dtype])
    with torch.no_grad():
        got = cpu.fused_rmsnorm_gated_cpu(x, gated.weight, z, 1e-6, "sigmoid")
    want = rms(x, 1e-6) * gated.weight.double() * z.double().sigmoid()
    torch.testing.assert_close(got.double(), want, **TOLERANCE[dtype])
    with pytest.raises(ValueError, match="'relu'; it can be silu or sigmoid"):
        cpu.fused_rmsnorm_gated_cpu(x, gated.weight, z, 1e-6, "relu")


@pytest.mark.parametrize("dtype", DTYPES)
def test_l2norm(dtype):
    x = torch.randn(7, 3, 40).to(dtype)
    x[0] = 0
    want = x.double() / (x.double().square().sum(-1, keepdim=True) + 1e-6).sqrt()
    torch.testing.assert_close(l2norm_cpu(x, 1e-6).double(), want, **TOLERANCE[dtype])


@pytest.mark.parametrize("tokens", [1, 7])
@pytest.mark.parametrize("dtype", DTYPES)
def test_sigmoid_mul_in_place_with_a_strided_gate(tokens, dtype):
    x = torch.randn(tokens, 4 * 24).to(dtype)
    gate = torch.randn(tokens, 4, 2, 24).to(dtype)[:, :, 1]
    want = x.double() * gate.reshape(tokens, -1).double().sigmoid()
    y = x.clone()
    fused_sigmoid_mul_cpu(y, gate)
    torch.testing.assert_close(y.double(), want, **TOLERANCE[dtype])
    fused_sigmoid_mul_cpu(x, gate.reshape(tokens, -1))
    assert torch.equal(x, y)


def test_split_by_hand():
    # One token, one key head of two, two value heads of one: q q k k v v z z and b b a a.
    qkvz, ba = torch.arange(8.0).view(1, 8), torch.arange(4.0).view(1, 4)
    qkv, z, b, a = fused_qkvzba_split_reshape_cat_contiguous_cpu(qkvz, ba, 1, 2, 2, 1)
    assert qkv.tolist() == [[0, 1, 2, 3, 4, 5]]
    assert z.tolist() == [[[6], [7]]]
    assert b.tolist() == [[0, 1]]
    assert a.tolist() == [[2, 3]]
