"""Copies of KV rows and states, against loops over rows written here."""

from types import SimpleNamespace

import pytest
import torch

from penny_kernels import cpu
from penny_kernels.cpu.cache_locations import build_draft_decode_metadata_cpu
from penny_kernels.cpu.draft_tree import parents_of
from penny_kernels.cpu.kv_copy import copy_all_layer_kv_cache_cpu


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_copy_all_layers_reads_before_it_writes(dtype):
    buffers = [torch.randn(20, 2, width).to(dtype) for width in (4, 4, 6)]
    want = [b.clone() for b in buffers]
    target, source = torch.tensor([3, 4, 5, 19]), torch.tensor([4, 5, 3, 0])  # a cycle: 3 <- 4 <- 5 <- 3
    for new, old in zip(want, buffers, strict=True):
        for t, s in zip(target, source, strict=True):
            new[t] = old[s]
    pointers = torch.tensor([b.data_ptr() for b in buffers], dtype=torch.uint64)
    strides = torch.tensor([b[0].numel() * b.element_size() for b in buffers])
    copy_all_layer_kv_cache_cpu(pointers, strides, target, source)
    assert all(map(torch.equal, buffers, want))
    copy_all_layer_kv_cache_cpu(pointers, strides, target[:0], source[:0])
    assert all(map(torch.equal, buffers, want))


@pytest.mark.parametrize("page", [1, 4])
@pytest.mark.parametrize("sides", [1, 2])  # a state pool has one, KV has two
def test_pages_to_host_and_back(page, sides):
    layers, slots, pages = 3, 24, 7
    pool = [[torch.randn(slots, 2, 5) for _ in range(layers)] for _ in range(sides)]
    host = [torch.full((pages, layers, page, 2, 5), float("nan")) for _ in range(sides)]
    device_pages, host_pages = torch.tensor([4, 0, 2]), torch.tensor([1, 6, 3])
    device = (device_pages.unsqueeze(1) * page + torch.arange(page)).flatten()
    hosted = (host_pages.unsqueeze(1) * page + torch.arange(page)).flatten()
    cpu.transfer_kv_all_layer_direct_lf_pf([x for side in pool for x in side], host, device, hosted, page)
    for side, buffer in zip(pool, host, strict=True):
        for d, h in zip(device_pages, host_pages, strict=True):
            for layer in range(layers):
                assert torch.equal(buffer[h, layer], side[layer][d * page : (d + 1) * page])
        assert buffer[[0, 2, 4, 5]].isnan().all()
    for layer in range(layers):
        back = [torch.zeros(slots, 2, 5) for _ in range(sides)]
        cpu.transfer_kv_per_layer_direct_pf_lf(host, back, hosted, device, layer, page)
        for side, restored in zip(pool, back, strict=True):
            assert torch.equal(restored[device], side[layer][device])
            assert restored.count_nonzero() == device.numel() * 10


def test_rows_layer_by_layer():
    src, dst = [torch.randn(9, 3) for _ in range(2)], [torch.zeros(9, 3) for _ in range(2)]
    cpu.transfer_kv_direct(src, dst, torch.tensor([8, 0, 3]), torch.tensor([1, 2, 5]), 1)
    for a, b in zip(src, dst, strict=True):
        assert torch.equal(b[[1, 2, 5]], a[[8, 0, 3]])
        assert b[[0, 3, 4, 6, 7, 8]].count_nonzero() == 0


def test_tracking_copies_states_in_every_layer():
    conv, ssm = torch.randn(2, 8, 5, 3), torch.randn(2, 8, 2, 4, 4)
    before = conv.clone(), ssm.clone()
    source, target = torch.tensor([1, 2, 3, -1]), torch.tensor([5, 6, -1, 7])
    cpu.track_mamba_states_all_layers(
        conv, ssm, source, torch.tensor([True, False, True, True]), target, 4, check_freed_slots=True
    )
    for after, old in zip((conv, ssm), before, strict=True):
        want = old.clone()
        want[:, 5] = old[:, 1]
        assert torch.equal(after, want)
    # A batch that is shorter than the index tensors.
    conv, ssm = (x.clone() for x in before)
    cpu.track_mamba_states_all_layers(conv, ssm, source, torch.ones(4, dtype=torch.bool), target, 2)
    for after, old in zip((conv, ssm), before, strict=True):
        want = old.clone()
        want[:, 5], want[:, 6] = old[:, 1], old[:, 2]
        assert torch.equal(after, want)


@pytest.mark.parametrize("track", [False, True])
def test_commit_after_verification(track):
    pools = SimpleNamespace(
        temporal=torch.randn(2, 6, 2, 4, 4),
        intermediate_ssm=torch.randn(2, 4, 3, 2, 4, 4),
        conv=[torch.randn(2, 6, 5, 3)],
        intermediate_conv_window=[torch.randn(2, 4, 3, 5, 3)],
    )
    want = pools.temporal.clone(), pools.conv[0].clone()
    slots, steps = torch.tensor([4, 1, 2]), torch.tensor([2, 0, -1])
    tracked, at = (torch.tensor([5, 3, 0]), torch.tensor([-1, 1, -1])) if track else (None, None)
    for pool, drafts in zip(want, (pools.intermediate_ssm, pools.intermediate_conv_window[0]), strict=True):
        pool[:, 4], pool[:, 1] = drafts[:, 0, 2], drafts[:, 1, 0]
        if track:
            pool[:, 3] = drafts[:, 1, 1]
    cpu.scatter_mamba_states_after_mtp_verify(pools, slots, steps, tracked, at)
    assert torch.equal(pools.temporal, want[0])
    assert torch.equal(pools.conv[0], want[1])


def test_draft_decode_table_by_hand():
    table = torch.arange(100, dtype=torch.int32).view(5, 20)
    out = build_draft_decode_metadata_cpu(table, torch.tensor([2, 0]), torch.tensor([3, 1]), 2, 2, 20)
    assert out.dtype == torch.int32
    rows = out.tolist()
    # Request 2 has tokens 40, 41, 42 and its branches' slots at 3, 4 and at 5, 6; request 0 has token 0.
    assert [rows[0][:5], rows[1][:5]] == [[40, 41, 42, 43, 44], [40, 41, 42, 45, 46]]
    assert [rows[2][:3], rows[3][:3]] == [[0, 1, 2], [0, 3, 4]]


def test_parents_by_hand():
    # 0 -> 1, 2, 5 (siblings); 2 -> 3, 4; 6 is linked from nowhere.
    first = torch.tensor([[1, -1, 3, -1, -1, -1, -1]])
    sibling = torch.tensor([[-1, 2, 5, 4, -1, -1, -1]])
    assert parents_of(first, sibling).tolist() == [[-1, 0, 0, 2, 2, 0, -1]]
