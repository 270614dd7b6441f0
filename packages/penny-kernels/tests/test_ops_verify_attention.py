"""The packed mask by hand, and attention of a block against PyTorch's own."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from penny_kernels.ops.verify_attention import chain_mask, pack_mask, unpack_mask, verify_attention


def test_words_of_a_chain_by_hand() -> None:
    assert pack_mask(chain_mask(3)).tolist() == [[1, 0], [3, 0], [7, 0]]
    last = pack_mask(chain_mask(16))[-1].tolist()
    assert last == [0xFFFF, 0]
    assert pack_mask(chain_mask(18))[-2:].tolist() == [[0xFFFF, 1], [0xFFFF, 3]]
    assert pack_mask(chain_mask(33))[-1].tolist() == [0xFFFF, 0xFFFF, 1, 0]


def test_a_bit_is_a_draft_token() -> None:
    seen = torch.zeros(20, 20, dtype=torch.bool)
    seen[7, 0] = seen[7, 15] = seen[7, 17] = True
    words = pack_mask(seen)
    assert words[7].tolist() == [1 + 2**15, 2]
    assert words.int().sum() == words[7].int().sum()


@pytest.mark.parametrize("width", range(2, 17))
def test_any_mask_comes_back(width: int) -> None:
    torch.manual_seed(width)
    seen = torch.rand(3, width, width) < 0.5
    words = pack_mask(seen)
    assert words.dtype == torch.uint16
    assert torch.equal(unpack_mask(words, width), seen)


def test_what_is_no_mask_is_refused() -> None:
    with pytest.raises(ValueError, match=r"bool \[\.\.\., width, width\]; this is torch.int64 \(4, 4\)"):
        pack_mask(torch.ones(4, 4, dtype=torch.int64))
    with pytest.raises(ValueError, match=r"this is torch.bool \(4, 3\)"):
        pack_mask(torch.ones(4, 3, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"uint16 \[\.\.\., 4, 2\]; these are torch.uint16 \(4, 4\)"):
        unpack_mask(torch.zeros(4, 4, dtype=torch.uint16), 4)


@pytest.mark.parametrize(("width", "tree"), [(2, False), (5, True), (16, True)])
def test_attention_is_that_of_pytorch_over_scattered_pages(width: int, tree: bool) -> None:
    torch.manual_seed(width)
    heads, kv_heads, dim, page = 6, 2, 16, 8
    lengths = torch.tensor([width + 3, 50, 8 * 5])
    pages = torch.stack([torch.randperm(20)[:7] for _ in range(3)])
    keys, values = torch.randn(2, 20, page, kv_heads, dim, dtype=torch.float64)
    query = torch.randn(3, width, heads, dim, dtype=torch.float64)
    seen = chain_mask(width)
    if tree:
        seen = seen & (torch.rand(3, width, width) < 0.5) | torch.eye(width, dtype=torch.bool)
    found = verify_attention(query, keys, values, pages, lengths, seen, dim**-0.5)
    for i, length in enumerate(lengths.tolist()):
        slots = torch.tensor([int(pages[i, t // page]) * page + t % page for t in range(length)])
        k, v = (x.flatten(0, 1)[slots].transpose(0, 1) for x in (keys, values))
        bias = torch.ones(width, length, dtype=torch.bool)
        bias[:, length - width :] = seen.expand(3, width, width)[i]
        wanted = F.scaled_dot_product_attention(
            query[i].transpose(0, 1)[None], k[None], v[None], attn_mask=bias, enable_gqa=True
        )
        torch.testing.assert_close(found[i], wanted[0].transpose(0, 1))


def test_a_cache_shorter_than_its_block_is_refused() -> None:
    keys = torch.zeros(2, 8, 1, 4)
    table = torch.tensor([[0, 1]])
    with pytest.raises(ValueError, match="A cache of 3 tokens does not hold a block of 4"):
        verify_attention(torch.zeros(1, 4, 1, 4), keys, keys, table, torch.tensor([3]), chain_mask(4), 1.0)
