"""The linear layer with a float32 copy, against a float64 product."""

import pytest
import torch

from penny_kernels import cpu


@pytest.mark.parametrize("rows", [1, 4, 5, 65])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("with_bias", [False, True])
def test_both_sides_of_the_threshold(rows, dtype, with_bias):
    x, weight = torch.randn(rows, 40).to(dtype), torch.randn(24, 40).to(dtype)
    bias = torch.randn(24).to(dtype) if with_bias else None
    out = cpu.linear_with_wide_copy(x, weight, weight.float(), bias)
    want = x.double() @ weight.double().T + (0 if bias is None else bias.double())
    assert out.dtype == dtype
    tolerance = {"rtol": 8e-3, "atol": 2e-2} if dtype == torch.bfloat16 else {"rtol": 1e-5, "atol": 1e-5}
    torch.testing.assert_close(out.double(), want, **tolerance)
