"""Paged attention against a float64 loop over requests, heads and queries."""

import pytest
import torch

from penny_kernels.cpu.attention import decode_attention_cpu, extend_attention_cpu

TOLERANCE = {torch.float32: {"rtol": 1e-4, "atol": 2e-6}, torch.bfloat16: {"rtol": 1.6e-2, "atol": 1e-2}}


class Pool:
    """KV of requests in pages scattered over a pool; whatever no request owns is NaN."""

    def __init__(self, totals, dtype, kv_heads=2, dim=16, v_dim=16):
        size = sum(totals) + 5
        self.totals, self.kv_heads = totals, kv_heads
        self.k = torch.full((size, kv_heads, dim), float("nan"), dtype=dtype)
        self.v = torch.full((size, kv_heads, v_dim), float("nan"), dtype=dtype)
        # Past a request's end the table points at rows that hold NaN.
        self.table = torch.full((len(totals) + 4, max(totals) + 3), size - 1, dtype=torch.int32)
        self.requests = torch.randperm(len(totals) + 4)[: len(totals)]
        free = torch.randperm(size - 1)
        for request, total in zip(self.requests, totals, strict=True):
            rows, free = free[:total], free[total:]
            self.table[request, :total] = rows.to(torch.int32)
            self.k[rows], self.v[rows] = (
                torch.randn(total, *x.shape[1:]).to(dtype) for x in (self.k, self.v)
            )

    def rows(self, i, start=0):
        return self.table[self.requests[i], start : self.totals[i]].long()

    def attend(self, query, i, visible, scale):
        """query [heads, dim] over the tokens of request i where ``visible``; float64 [heads, v_dim]."""
        out = []
        for head, q in enumerate(query.double()):
            kv = head * self.kv_heads // query.shape[0]
            k, v = (x[self.rows(i), kv].double()[visible] for x in (self.k, self.v))
            out.append(torch.softmax(k @ q * scale, 0) @ v)
        return torch.stack(out)


def decode(pool, query, new, window=0):
    out = torch.full((*query.shape[:2], pool.v.shape[-1]), float("nan"), dtype=query.dtype)
    lengths = torch.tensor(pool.totals)
    loc = torch.stack([pool.rows(i)[-1] for i in range(len(pool.totals))])
    decode_attention_cpu(
        query,
        pool.k,
        pool.v,
        1.0,
        1.0,
        out,
        *new,
        loc,
        None,
        pool.table,
        pool.requests,
        lengths,
        0.3,
        0.0,
        False,
        window,
        None,
        None,
    )
    return out


@pytest.mark.parametrize(
    "totals", [[1], [7], [200], [63, 64, 65], [1, 200, 7], [5, 1, 64, 65, 2, 33, 200, 9]]
)
@pytest.mark.parametrize(("heads", "kv_heads"), [(2, 2), (4, 2), (4, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_decode(totals, heads, kv_heads, dtype):
    pool = Pool(totals, dtype, kv_heads)
    query = torch.randn(len(totals), heads, 16).to(dtype)
    packed = torch.randn(len(totals), 2 * kv_heads * 16).to(dtype)
    new = packed.split(kv_heads * 16, -1)  # strided, as the projection's split hands them over
    out = decode(pool, query, new)
    for i in range(len(totals)):
        assert torch.equal(pool.k[pool.rows(i)[-1]].flatten(), new[0][i])
        assert torch.equal(pool.v[pool.rows(i)[-1]].flatten(), new[1][i])
        want = pool.attend(query[i], i, torch.ones(totals[i], dtype=torch.bool), 0.3)
        torch.testing.assert_close(out[i].double(), want, **TOLERANCE[dtype])
    # Already stored: the same answer.
    torch.testing.assert_close(decode(pool, query, (None, None)), out, rtol=0, atol=0)


def extend(pool, news, query, new, tree=None, causal=True, starts=None, window=0):
    out = torch.full((*query.shape[:2], pool.v.shape[-1]), float("nan"), dtype=query.dtype)
    lengths = torch.tensor(news, dtype=torch.int32)
    starts = lengths.cumsum(0) - lengths if starts is None else starts
    extend_attention_cpu(
        query,
        *new,
        out,
        pool.k,
        pool.v,
        1.0,
        1.0,
        pool.table,
        pool.requests,
        torch.tensor(pool.totals),
        lengths,
        starts.to(torch.int32),
        max(news),
        0.3,
        0.0,
        False,
        window,
        None,
        None,
        tree,
        causal,
    )
    return out


CASES = [
    ([1], [1]),
    ([7], [7]),
    ([200], [63]),
    ([64, 65, 200], [64, 1, 7]),
    ([7, 7, 7], [7, 7, 7]),
    ([70, 65, 64, 200, 9, 1, 33, 129], [6, 65, 63, 200, 1, 1, 32, 65]),
]


@pytest.mark.parametrize(("totals", "news"), CASES)
@pytest.mark.parametrize(("heads", "kv_heads"), [(2, 2), (4, 2), (4, 1)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("causal", [True, False])
def test_extend(totals, news, heads, kv_heads, dtype, causal):
    pool = Pool(totals, dtype, kv_heads)
    query = torch.randn(sum(news), heads, 16).to(dtype)
    rows = torch.cat([pool.rows(i, totals[i] - new) for i, new in enumerate(news)])
    new = pool.k[rows].flatten(1), pool.v[rows].flatten(1)
    stored = extend(pool, news, query, (None, None), causal=causal)
    # The new tokens come with the call: the pool need not hold them yet.
    kept = pool.k.clone(), pool.v.clone()
    pool.k[rows] = pool.v[rows] = float("nan")
    out = extend(pool, news, query, new, causal=causal)
    assert torch.equal(out, stored)
    pool.k, pool.v = kept
    token = 0
    for i, (total, count) in enumerate(zip(totals, news, strict=True)):
        for step in range(count):
            visible = torch.arange(total) <= (total - count + step if causal else total)
            want = pool.attend(query[token], i, visible, 0.3)
            torch.testing.assert_close(out[token].double(), want, **TOLERANCE[dtype])
            token += 1


@pytest.mark.parametrize("window", [1, 7, 64, 500])
@pytest.mark.parametrize("totals", [[1], [7], [200], [63, 64, 65], [1, 200, 7]])
def test_decode_sees_the_last_tokens_of_a_window(totals, window):
    pool = Pool(totals, torch.float32)
    query = torch.randn(len(totals), 4, 16)
    out = decode(pool, query, (None, None), window)
    for i, total in enumerate(totals):
        visible = torch.arange(total) >= total - window
        assert int(visible.sum()) == min(window, total)
        want = pool.attend(query[i], i, visible, 0.3)
        torch.testing.assert_close(out[i].double(), want, **TOLERANCE[torch.float32])


@pytest.mark.parametrize("window", [1, 7, 64, 500])
@pytest.mark.parametrize(("totals", "news"), CASES)
@pytest.mark.parametrize("causal", [True, False])
def test_extend_sees_a_window_before_each_token(totals, news, causal, window):
    pool = Pool(totals, torch.float32)
    query = torch.randn(sum(news), 4, 16)
    out = extend(pool, news, query, (None, None), causal=causal, window=window)
    token = 0
    for i, (total, count) in enumerate(zip(totals, news, strict=True)):
        for at in range(total - count, total):
            places = torch.arange(total)
            visible = (places > at - window) & (places <= (at if causal else total))
            want = pool.attend(query[token], i, visible, 0.3)
            torch.testing.assert_close(out[token].double(), want, **TOLERANCE[torch.float32])
            token += 1


def test_extend_tree():
    # 0 -> (1, 2), 1 -> 3, twice, behind prefixes of 5 and 60 tokens.
    pool = Pool([9, 64], torch.float32)
    query = torch.randn(8, 4, 16)
    sees = torch.tensor([[1, 0, 0, 0], [1, 1, 0, 0], [1, 0, 1, 0], [1, 1, 0, 1]], dtype=torch.bool)
    out = extend(pool, [4, 4], query, (None, None), tree=sees.repeat(2, 1, 1).flatten())
    for i, total in enumerate(pool.totals):
        for step in range(4):
            visible = torch.cat((torch.ones(total - 4, dtype=torch.bool), sees[step]))
            torch.testing.assert_close(
                out[4 * i + step].double(),
                pool.attend(query[4 * i + step], i, visible, 0.3),
                **TOLERANCE[torch.float32],
            )


def test_extend_leaves_padding_rows_alone():
    pool = Pool([7], torch.float32)
    out = extend(pool, [3], torch.randn(5, 2, 16), (None, None))
    assert not out[:3].isnan().any()
    assert out[3:].isnan().all()


def test_values_of_another_width():
    pool = Pool([7, 9], torch.float32, dim=16, v_dim=8)
    query = torch.randn(2, 4, 16)
    out = decode(pool, query, (None, None))
    for i in range(2):
        want = pool.attend(query[i], i, torch.ones(pool.totals[i], dtype=torch.bool), 0.3)
        torch.testing.assert_close(out[i].double(), want, **TOLERANCE[torch.float32])


@pytest.mark.parametrize(
    ("position", "value", "word"),
    [(3, 0.5, "k_scale"), (14, 30.0, "logit_cap"), (15, True, "is_cross_attn")],
)
def test_decode_refuses_what_it_does_not_serve(position, value, word):
    pool = Pool([7], torch.float32)
    query = torch.randn(1, 2, 16)
    arguments = [
        query,
        pool.k,
        pool.v,
        1.0,
        1.0,
        query.clone(),
        None,
        None,
        torch.tensor([0]),
        None,
        pool.table,
        pool.requests,
        torch.tensor([7]),
        0.3,
        0.0,
        False,
        0,
        None,
        None,
    ]
    arguments[position] = value
    with pytest.raises(NotImplementedError, match=word):
        decode_attention_cpu(*arguments)
