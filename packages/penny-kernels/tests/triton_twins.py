"""Run stock SGLang's Triton kernels in the Triton interpreter and save what they did: ``triton_twins.py
OUT.pt``.

Started by ``conftest.py`` with TRITON_INTERPRET=1. OUT.pt is a dict: name -> list of (inputs, outputs);
``inputs`` are the arguments before the call and ``outputs`` the tensors that the kernel returned or wrote, in
the order that ``test_cpu_triton_twins.py`` expects.
"""

import copy
import sys
from collections import defaultdict

import torch
import triton
from sglang.kernels.ops.attention.linear.fused_gdn_gating import fused_gdn_gating
from sglang.kernels.ops.attention.linear.fused_sigmoid_gating_recurrent import (
    fused_sigmoid_gating_delta_rule_update,
)
from sglang.kernels.ops.attention.triton_gdn_fused_proj import fused_qkvzba_split_reshape_cat_contiguous
from sglang.kernels.ops.elementwise.elementwise import fused_gate_sigmoid_mul, fused_gate_sigmoid_mul_add
from sglang.kernels.ops.mamba import mamba_state_scatter_triton as scatter
from sglang.kernels.ops.mamba.causal_conv1d_triton import causal_conv1d_update
from sglang.kernels.ops.speculative import cache_locs, eagle, multi_layer_eagle, spec_tree
from sglang.srt.layers.attention.qsa.kernel import gather_qsa_compressed_keys
from sglang.srt.mem_cache.allocation import assign_req_to_token_pool

CASES = defaultdict(list)


def record(name, outputs, **inputs):
    CASES[name].append((inputs, outputs))


def randint(high, *shape, dtype=torch.int64):
    return torch.randint(high, shape, dtype=dtype)


def draft_tree(batch, topk, steps, n):
    """What the stock drafter hands to the tree builder: parents and the n - 1 best candidates of a random
    draft.
    """
    scores = torch.rand(batch, topk).sort(1, descending=True).values
    scores_list, parents = [scores], [torch.arange(-1, topk).repeat(batch, 1)]
    for step in range(1, steps):
        grown = (scores.unsqueeze(2) * torch.rand(batch, topk, topk)).flatten(1)
        best = grown.topk(topk, dim=1)
        scores = best.values
        scores_list.append(grown)
        parents.append(best.indices + topk * topk * (step - 1) + topk)
    selected = torch.cat(scores_list, 1).topk(n - 1, dim=1).indices.sort(1).values
    return torch.cat(parents[:-1] if steps > 1 else parents, 1), selected


def trees():
    for batch, topk, steps, n in ((1, 1, 3, 4), (3, 4, 3, 8), (8, 2, 4, 7), (2, 3, 1, 4), (1, 4, 5, 16)):
        for mode in (0, 1):
            parents, selected = draft_tree(batch, topk, steps, n)
            lengths = randint(20, batch) + 1
            cells = n * n * batch + (int(lengths.sum()) * n if mode == 0 else 0)
            outputs = [
                torch.ones(cells, dtype=torch.bool),
                torch.full((batch * n,), -7),
                *(torch.full((batch, n), -1) for _ in range(3)),
            ]
            inputs = {
                "parents": parents,
                "selected": selected,
                "lengths": lengths,
                "before": copy.deepcopy(outputs),
            }
            shape = {"topk": topk, "depth": steps, "n": n, "mode": mode}
            spec_tree.sgl_build_tree_kernel_triton(parents, selected, lengths, *outputs, topk, steps, n, mode)
            record("build_tree", outputs, **inputs, **shape)
            walk(batch, n, steps, *outputs[2:])
            conv_and_recurrence(batch, n, outputs[3], outputs[4])
        conv_and_recurrence(batch, n, None, None)


def walk(batch, n, steps, index, first, sibling):
    candidates, target = randint(3, batch, n), randint(3, batch, n)
    # Siblings of a real drafter are different tokens.
    for row in range(batch):
        for node in range(n):
            child, token = int(first[row, node]), int(randint(3, 1))
            while child >= 0:
                candidates[row, child], token = token % 3, token + 1
                child = int(sibling[row, child])
    outputs = [
        torch.full((batch * n,), -7, dtype=torch.int32),
        torch.full((batch, steps + 1), -1, dtype=torch.int32),
        torch.full((batch,), -7, dtype=torch.int32),
    ]
    inputs = {
        "before": copy.deepcopy(outputs),
        "candidates": candidates,
        "tree": (index, first, sibling),
        "target": target,
    }
    spec_tree.verify_tree_greedy_triton(*outputs, candidates, index, first, sibling, target)
    record("verify_tree", outputs, **inputs)


def conv_and_recurrence(batch, n, first, sibling):
    for dtype, width in ((torch.float32, 4), (torch.bfloat16, 4), (torch.float32, 3), (torch.float32, 2)):
        dim, slots = 24, batch + 3
        x = torch.randn(batch, n, dim, dtype=dtype)
        state = torch.randn(slots, dim, width - 1, dtype=dtype)
        weight, bias = torch.randn(dim, width, dtype=dtype), torch.randn(dim, dtype=dtype)
        where = torch.randperm(slots)[:batch].to(torch.int32)
        rows = torch.randperm(batch + 1)[:batch].to(torch.int32)
        window = torch.full((batch + 1, n, dim, width - 1), float("nan"), dtype=dtype)
        parent = None if first is None else torch.full((batch, n), -7, dtype=torch.int64)
        before = copy.deepcopy((state, window, parent))
        tree = {"first": first, "sibling": sibling}
        out = causal_conv1d_update(
            x.transpose(1, 2),
            state,
            weight,
            bias,
            "silu",
            conv_state_indices=where,
            intermediate_conv_window=window,
            intermediate_state_indices=rows,
            retrieve_next_token=first,
            retrieve_next_sibling=sibling,
            retrieve_parent_token=parent,
        )
        record(
            "conv_verify",
            [out, state, window, parent],
            x=x,
            before=before,
            weight=weight,
            bias=bias,
            where=where,
            rows=rows,
            **tree,
        )
    recurrence(batch, n, parent)


def recurrence(batch, n, parent):
    for dtype, state_dtype in (
        (torch.float32, torch.float32),
        (torch.bfloat16, torch.float32),
        (torch.bfloat16, torch.bfloat16),
    ):
        heads, ratio, k_dim, v_dim = 2, 1 + batch % 3, 16, 8
        v_heads, tokens, slots = heads * ratio, batch * n, batch + 2
        qkv = torch.randn(tokens, 2 * heads * k_dim + v_heads * v_dim, dtype=dtype)
        a, b = torch.randn(2, tokens, v_heads, dtype=dtype)
        log, bias = torch.randn(v_heads), torch.randn(v_heads, dtype=dtype)
        pool = torch.randn(slots, v_heads, v_dim, k_dim, dtype=state_dtype)
        where = torch.randperm(slots)[:batch].to(torch.int32)
        if batch > 2:
            where[1] = -1
        rows = torch.randperm(batch + 1)[:batch].to(torch.int32)
        kept = torch.full((batch + 1, n, v_heads, v_dim, k_dim), float("nan"), dtype=state_dtype)
        cu = torch.arange(0, tokens + 1, n, dtype=torch.int32)
        before = copy.deepcopy((pool, kept))
        parts = qkv.split([heads * k_dim, heads * k_dim, v_heads * v_dim], -1)
        q, k, v = (p.view(1, tokens, -1, d) for p, d in zip(parts, (k_dim, k_dim, v_dim), strict=True))
        common = {
            "A_log": log,
            "a": a,
            "dt_bias": bias,
            "softplus_beta": 1.0,
            "softplus_threshold": 20.0,
            "q": q,
            "k": k,
            "v": v,
            "b": b,
            "initial_state_source": pool,
            "initial_state_indices": where,
            "cu_seqlens": cu,
            "use_qk_l2norm_in_kernel": True,
        }
        if n > 1:
            out = fused_sigmoid_gating_delta_rule_update(
                **common,
                disable_state_update=True,
                intermediate_states_buffer=kept,
                intermediate_state_indices=rows,
                cache_steps=n,
                retrieve_parent_token=parent,
            )
            outputs = [out, pool, kept]
        else:
            outputs = [fused_sigmoid_gating_delta_rule_update(**common), pool, kept]
        record(
            "recurrence",
            outputs,
            qkv=qkv,
            heads=(heads, v_heads, k_dim, v_dim),
            a=a,
            b=b,
            log=log,
            bias=bias,
            before=before,
            where=where,
            rows=rows,
            cu=cu,
            parent=parent,
            verify=n > 1,
        )


def elementwise():
    for tokens, v_heads, dtype in ((1, 4, torch.float32), (7, 6, torch.bfloat16), (65, 3, torch.float32)):
        a, b = (torch.randn(tokens, 2 * v_heads, dtype=dtype) * 20).split(v_heads, -1)
        log, bias = torch.randn(v_heads), torch.randn(v_heads, dtype=dtype)
        record("gating", list(fused_gdn_gating(log, a, b, bias)), a=a, b=b, log=log, bias=bias)
        hidden, shared, final = torch.randn(3, tokens, 48, dtype=dtype)
        weight, before = torch.randn(48, dtype=dtype), final.clone()
        alone = fused_gate_sigmoid_mul(hidden, weight, shared)
        fused_gate_sigmoid_mul_add(hidden, weight, shared, final)
        record("shared_expert", [alone, final], hidden=hidden, weight=weight, shared=shared, before=before)
        for ratio in (1, 2, 4):
            qkvz, ba = torch.randn(tokens, 2 * 2 * 16 + 2 * 2 * ratio * 16), torch.randn(tokens, 4 * ratio)
            shape = (2, 2 * ratio, 16, 16)
            record(
                "split",
                list(fused_qkvzba_split_reshape_cat_contiguous(qkvz, ba, *shape)),
                args=(qkvz, ba, *shape),
            )


def locations():
    for batch in (1, 3, 8):
        table = randint(900, 12, 64, dtype=torch.int32)
        requests = torch.randperm(12)[:batch]
        start, lengths = randint(20, batch) + 1, randint(9, batch)
        end = start + lengths
        total, power = int(lengths.sum()), triton.next_power_of_2(batch)
        out = torch.full((total + 2,), -7)
        cache_locs.assign_extend_cache_locs[(batch,)](requests, table, start, end, out, 64, power)
        record("extend_locs", [out], args=(requests, table, start, end), size=total + 2)
        written, slots = table.clone(), randint(900, total + 2)
        assign_req_to_token_pool[(batch,)](requests, written, start, end, slots, 64, power)
        record("write_table", [written], args=(requests, table.clone(), start, end, slots))
        out = torch.full((batch * 6,), -7)
        cache_locs.assign_draft_cache_locs_contiguous[(batch,)](requests, table, start, out, 64, 2, 3)
        record("draft_locs", [out], args=(requests, table, start))
        accepted(batch)
        states(batch)
        blocks = randint(5, batch) + 1
        cu = torch.cat((torch.zeros(1, dtype=torch.int64), blocks.cumsum(0))).to(torch.int32)
        keys = torch.randn(240, 1, 16)
        args = (keys, table, cu, int(blocks.sum()), int(blocks.max()), 4)
        record("qsa_keys", [gather_qsa_compressed_keys(*args)], args=args)


def accepted(batch):
    lens = randint(4, batch) + 1
    tokens, bonus = randint(99, batch * 4, dtype=torch.int32), torch.full((batch,), -7, dtype=torch.int32)
    eagle.fill_bonus_tokens[(batch,)](tokens, lens, bonus, 4)
    record("bonus", [bonus], args=(tokens, lens))
    index = torch.where(torch.arange(4) < lens.unsqueeze(1), randint(batch * 4, batch, 4), -1)
    slots, packed = randint(900, batch * 4), torch.full((batch * 4,), -7)
    eagle.fill_accept_out_cache_loc[(batch * 4,)](
        index.flatten(), slots, packed, triton.next_power_of_2(batch * 4)
    )
    record("accepted_slots", [packed], args=(index.flatten(), slots))
    lengths = randint(6, batch)
    starts = lengths.cumsum(0) - lengths
    ids, new = randint(99, int(lengths.sum()) + 3), randint(99, batch)
    for select in (None, starts + (lengths - 1).clamp(min=0) // 2):
        rotated = ids.clone()
        multi_layer_eagle.rotate_input_ids_kernel[(batch,)](
            rotated, starts, lengths, new, select, BLOCK_SIZE=8
        )
        record("rotate", [rotated], args=(ids, starts, lengths, new, select))


def states(batch):
    lens = randint(4, batch) + 1
    index = torch.arange(batch).unsqueeze(1) * 6 + randint(6, batch, 4)
    for before in (None, randint(70, batch)):
        out = scatter.fused_commit_track_indices(index.to(torch.int32), lens, before, 6, 64)
        record("commit_track", list(out), args=(index, lens, before, 6, 64))
    target = torch.randperm(9)[:batch].to(torch.int32)
    step, row = (
        randint(5, batch, dtype=torch.int32) - 1,
        torch.randperm(batch + 2)[:batch].to(torch.int32) - 1,
    )
    checked = row
    conv_src, conv = torch.randn(2, batch, 4, 6, 3), torch.randn(2, 9, 6, 3)
    before, row = conv.clone(), row.clamp(min=0)  # this kernel checks no lower bound of the row
    scatter._fused_conv_window_scatter_with_mask_kernel[(batch, 2, 1)](
        conv_src,
        conv,
        target,
        step,
        row,
        18,
        3,
        *conv_src.stride(),
        *conv.stride()[:2],
        batch,
        4,
        9,
        BLOCK_SIZE=32,
    )
    record("conv_scatter", [conv], args=(before, conv_src, target, step, row))
    flat_src, flat = torch.randn(2, batch, 4, 10), torch.randn(2, 9, 10)
    before = flat.clone()
    scatter._fused_mamba_state_scatter_with_mask_kernel[(batch, 2, 1)](
        flat_src,
        flat,
        target,
        step,
        checked,
        10,
        *flat_src.stride()[:3],
        *flat.stride()[:2],
        batch,
        4,
        9,
        BLOCK_SIZE=16,
    )
    record("state_scatter", [flat], args=(before, flat_src, target, step, checked))


if __name__ == "__main__":
    torch.manual_seed(20)
    trees()
    for size in (1, 3, 8):
        recurrence(size, 1, None)
    elementwise()
    locations()
    torch.save(dict(CASES), sys.argv[1])
