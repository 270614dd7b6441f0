"""Each operation with a Triton twin in stock SGLang against what that twin did in the Triton interpreter."""

import copy

import pytest
import torch

from penny_kernels import cpu
from penny_kernels.cpu.accepted_tokens import (
    fill_accept_out_cache_loc_cpu,
    fill_bonus_tokens_cpu,
    rotate_input_ids_cpu,
)
from penny_kernels.cpu.cache_locations import (
    assign_draft_cache_locs_contiguous_cpu,
    assign_extend_cache_locs_cpu,
    assign_req_to_token_pool_cpu,
)
from penny_kernels.cpu.causal_conv1d import causal_conv1d_update_cpu
from penny_kernels.cpu.draft_tree import build_tree_kernel_efficient_cpu, verify_tree_greedy_cpu
from penny_kernels.cpu.gating import fused_gdn_gating_cpu, fused_qkvzba_split_reshape_cat_contiguous_cpu
from penny_kernels.cpu.gdn_recurrence import fused_sigmoid_gating_delta_rule_update_cpu


def close(ours, theirs):
    # bfloat16: one rounding of values up to 8; a tree's states are rounded again at each level.
    tolerance = (
        {"rtol": 1.6e-2, "atol": 5e-2} if theirs.dtype == torch.bfloat16 else {"rtol": 2e-5, "atol": 2e-5}
    )
    torch.testing.assert_close(ours, theirs, equal_nan=True, **tolerance)


def exact(ours, theirs):
    torch.testing.assert_close(ours, theirs, rtol=0, atol=0, equal_nan=True)


def test_build_tree(twins):
    for x, want in twins["build_tree"]:
        mask, positions, *links = got = copy.deepcopy(x["before"])
        build_tree_kernel_efficient_cpu(
            x["parents"],
            x["selected"],
            x["lengths"],
            mask,
            positions,
            *links,
            x["topk"],
            x["depth"],
            x["n"],
            x["mode"],
        )
        for ours, theirs in zip(got, want, strict=True):
            exact(ours, theirs)
    assert len(twins["build_tree"]) == 10


def test_a_chain_of_one_draft_has_no_list_of_parents():
    """Prefixes of 5 and 9 tokens, the verified token and one draft after each: stock gives [2, 0] parents then."""
    mask = torch.zeros(2 * 2 * 2, dtype=torch.bool)
    positions = torch.zeros(4, dtype=torch.int64)
    index, child, sibling = torch.zeros(2, 2).long(), torch.full((2, 2), -1), torch.full((2, 2), -1)
    build_tree_kernel_efficient_cpu(
        torch.empty(2, 0).long(), torch.tensor([[0], [0]]), torch.tensor([5, 9]), mask, positions,
        index, child, sibling, 1, 1, 2, 1,
    )  # fmt: skip
    assert positions.tolist() == [5, 6, 9, 10]
    assert index.tolist() == [[0, 1], [2, 3]]
    assert child.tolist() == [[1, -1], [1, -1]]
    assert sibling.tolist() == [[-1, -1], [-1, -1]]
    assert mask.view(2, 2, 2).tolist() == [[[True, False], [True, True]]] * 2


def test_verify_tree(twins):
    accepted = 0
    for x, want in twins["verify_tree"]:
        got = copy.deepcopy(x["before"])
        verify_tree_greedy_cpu(*got, x["candidates"], *x["tree"], x["target"])
        for ours, theirs in zip(got, want, strict=True):
            exact(ours, theirs)
        accepted += int(want[2].sum())
    assert accepted > 10  # the walk went past roots


def test_conv_verify(twins):
    for x, (out, state, window, parent) in twins["conv_verify"]:
        pool, kept, links = copy.deepcopy(x["before"])
        got = causal_conv1d_update_cpu(
            x["x"].transpose(1, 2),
            pool,
            x["weight"],
            x["bias"],
            "silu",
            x["where"],
            kept,
            x["rows"],
            x["first"],
            x["sibling"],
            links,
        )
        if out.dtype == torch.float32:  # the interpreter cannot multiply bfloat16; test_cpu_conv.py does that
            close(got, out)
        exact(pool, state)
        exact(kept, window)
        if parent is not None:
            exact(links, parent)


def test_recurrence(twins):
    kinds = set()
    for x, (out, pool, kept) in twins["recurrence"]:
        heads, v_heads, k_dim, v_dim = x["heads"]
        ours, buffer = copy.deepcopy(x["before"])
        tokens = x["qkv"].shape[0]
        parts = x["qkv"].split([heads * k_dim, heads * k_dim, v_heads * v_dim], -1)
        q, k, v = (p.view(1, tokens, -1, d) for p, d in zip(parts, (k_dim, k_dim, v_dim), strict=True))
        verify = {
            "disable_state_update": True,
            "intermediate_states_buffer": buffer,
            "intermediate_state_indices": x["rows"],
            "cache_steps": buffer.shape[1],
            "retrieve_parent_token": x["parent"],
        }
        got = fused_sigmoid_gating_delta_rule_update_cpu(
            A_log=x["log"],
            dt_bias=x["bias"],
            q=q,
            k=k,
            v=v,
            a=x["a"],
            b=x["b"],
            initial_state_source=ours,
            initial_state_indices=x["where"],
            cu_seqlens=x["cu"],
            use_qk_l2norm_in_kernel=True,
            **(verify if x["verify"] else {}),
        )
        close(got, out)
        close(ours, pool)
        close(buffer, kept)
        kinds.add((x["verify"], x["parent"] is not None))
    assert kinds == {(False, False), (True, False), (True, True)}


def test_gating(twins):
    for x, (g, beta) in twins["gating"]:
        ours = fused_gdn_gating_cpu(x["log"], x["a"], x["b"], x["bias"])
        torch.testing.assert_close(ours[0], g, rtol=1e-5, atol=1e-6)
        # The twin rounds beta to the model's dtype on the way.
        torch.testing.assert_close(ours[1].to(x["b"].dtype).float(), beta, rtol=1e-2, atol=1e-6)
        assert ours[0].dtype == ours[1].dtype == torch.float32


def test_split(twins):
    for x, want in twins["split"]:
        for ours, theirs in zip(fused_qkvzba_split_reshape_cat_contiguous_cpu(*x["args"]), want, strict=True):
            exact(ours, theirs)


def test_shared_expert(twins):
    for x, (alone, added) in twins["shared_expert"]:
        close(cpu.fused_gate_sigmoid_mul(x["hidden"], x["weight"], x["shared"]), alone)
        final = x["before"].clone()
        cpu.fused_gate_sigmoid_mul_add(x["hidden"], x["weight"], x["shared"], final)
        close(final, added)


def test_token_table(twins):
    for x, (want,) in twins["extend_locs"]:
        out = torch.full((x["size"],), -7)
        requests, table, start, end = x["args"]
        assign_extend_cache_locs_cpu(requests, table, start, end, out, table.shape[1])
        exact(out, want)
    for x, (want,) in twins["write_table"]:
        requests, table, start, end, slots = x["args"]
        table = table.clone()
        assign_req_to_token_pool_cpu(requests, table, start, end, slots, table.shape[1])
        exact(table, want)
    for x, (want,) in twins["draft_locs"]:
        requests, table, start = x["args"]
        out = torch.full_like(want, -7)
        assign_draft_cache_locs_contiguous_cpu(requests, table, start, out, table.shape[1], 2, 3)
        exact(out, want)


def test_accepted(twins):
    for x, (want,) in twins["bonus"]:
        out = torch.full_like(want, -7)
        fill_bonus_tokens_cpu(*x["args"], out, 4)
        exact(out, want)
    for x, (want,) in twins["accepted_slots"]:
        out = torch.full_like(want, -7)
        fill_accept_out_cache_loc_cpu(*x["args"], out)
        exact(out, want)
    for x, (want,) in twins["rotate"]:
        ids, *rest = x["args"]
        ids = ids.clone()
        rotate_input_ids_cpu(ids, *rest)
        exact(ids, want)


@pytest.mark.parametrize(
    ("name", "operation"),
    [
        ("state_scatter", cpu.fused_mamba_state_scatter_with_mask),
        ("conv_scatter", cpu.fused_conv_window_scatter_with_mask),
    ],
)
def test_scatter(twins, name, operation):
    for x, (want,) in twins[name]:
        pool, *rest = x["args"]
        pool = pool.clone()
        operation(pool, *rest)
        exact(pool, want)


def test_commit_track(twins):
    for x, (last, track) in twins["commit_track"]:
        ours = cpu.fused_commit_track_indices(*x["args"])
        exact(ours[0], last)
        assert (ours[1] is None) == (track is None)
        if track is not None:
            exact(ours[1], track)


def test_qsa_keys(twins):
    for x, (want,) in twins["qsa_keys"]:
        exact(cpu.gather_qsa_compressed_keys(*x["args"]), want)
