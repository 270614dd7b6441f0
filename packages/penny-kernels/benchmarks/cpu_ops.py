"""Time of each CPU operation at decode, with its floor and what transformers' own module takes.

    python packages/penny-kernels/benchmarks/cpu_ops.py [--threads 1] [--dtype bfloat16] [--json OUT]

Shapes are those of tiny-27b. The floor is the bytes that the operation must read and write, over the
bandwidth that a large copy reaches in the same run; at these sizes the calls themselves, not the bytes, are
what it costs. Times are the best of 60 repeats of 20 calls, by the wall clock: run it on an idle machine.
"""

import argparse
import json
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers.models.qwen3_5 import modeling_qwen3_5 as peer

from penny_kernels.cpu.attention import decode_attention_cpu
from penny_kernels.cpu.causal_conv1d import causal_conv1d_update_cpu
from penny_kernels.cpu.gating import fused_sigmoid_mul_cpu
from penny_kernels.cpu.gdn_recurrence import fused_sigmoid_gating_delta_rule_update_cpu
from penny_kernels.cpu.norms import fused_qk_gemma_rmsnorm_with_gate_cpu, fused_rmsnorm_gated_cpu

K_HEADS, V_HEADS, DIM = 1, 2, 128
HEADS, KV_HEADS = 4, 1
CONTEXT = 256


@dataclass(frozen=True)
class Row:
    """One operation at one batch size; times in microseconds, per call."""

    operation: str
    batch: int
    ours_us: float
    peer_us: float
    floor_bytes: int
    floor_us: float


def best_us(call: Callable[[], object], calls: int = 20, repeats: int = 60) -> float:
    for _ in range(10):
        call()
    best = float("inf")
    for _ in range(repeats):
        start = time.perf_counter()
        for _ in range(calls):
            call()
        best = min(best, time.perf_counter() - start)
    return best / calls * 1e6


def bandwidth() -> float:
    """Bytes per microsecond of a copy of 128 MiB, both ways counted."""
    source = torch.zeros(32 * 2**20)
    target = torch.empty_like(source)
    return 2 * source.nbytes / best_us(lambda: target.copy_(source), calls=2, repeats=5)


Case = tuple[str, Callable[[], object], Callable[[], object], int]


def gdn_cases(batch: int, dtype: torch.dtype) -> list[Case]:
    width = (2 * K_HEADS + V_HEADS) * DIM
    mixed = torch.randn(batch, width).to(dtype)
    conv_pool, weight = torch.randn(66, width, 3), torch.randn(width, 4).to(dtype)
    pool = torch.randn(66, V_HEADS, DIM, DIM)
    slots = torch.arange(batch, dtype=torch.int32) * 3 + 1
    q, k, v = mixed.split([K_HEADS * DIM, K_HEADS * DIM, V_HEADS * DIM], -1)
    q, k, v = (x.view(1, batch, -1, DIM) for x in (q, k, v))
    a, b = torch.randn(batch, 2 * V_HEADS).to(dtype).split(V_HEADS, -1)
    # Almost no decay: repeated calls must not drive the state into denormal numbers.
    log, bias = torch.full((V_HEADS,), -30.0), torch.zeros(V_HEADS, dtype=dtype)
    cu = torch.arange(batch + 1, dtype=torch.int32)
    x, z = torch.randn(2, batch * V_HEADS, DIM).to(dtype)
    norm = peer.Qwen3_5RMSNormGated(DIM).to(dtype).requires_grad_(False)

    conv_state, state = torch.randn(batch, width, 4).to(dtype), torch.randn(batch, V_HEADS, DIM, DIM)

    def peer_recurrence() -> Tensor:
        g = -log.exp() * F.softplus(a.float() + bias)
        per_head = [t.transpose(0, 1).repeat_interleave(V_HEADS // K_HEADS, 2) for t in (q, k)]
        return peer.torch_recurrent_gated_delta_rule(
            *per_head,
            v.transpose(0, 1),
            g.unsqueeze(1),
            b.sigmoid().unsqueeze(1),
            initial_state=state,
            output_final_state=True,
            use_qk_l2norm_in_kernel=True,
        )

    item = mixed.element_size()
    return [
        (
            "convolution",
            lambda: causal_conv1d_update_cpu(mixed, conv_pool, weight, None, "silu", slots),
            lambda: peer.causal_conv1d_update(mixed.unsqueeze(-1), conv_state, weight, None, "silu"),
            batch * width * (2 * 3 * 4 + 2 * item) + weight.nbytes,
        ),
        (
            "gated delta rule",
            lambda: fused_sigmoid_gating_delta_rule_update_cpu(
                log, bias, q, k, v, a, b, pool, slots, cu, use_qk_l2norm_in_kernel=True
            ),
            peer_recurrence,
            2 * batch * pool[0].nbytes + mixed.nbytes + v.nbytes,
        ),
        (
            "gated norm",
            lambda: fused_rmsnorm_gated_cpu(x, norm.weight, z, 1e-6),
            lambda: norm(x, z),
            3 * x.nbytes,
        ),
    ]


def attention_cases(batch: int, dtype: torch.dtype) -> list[Case]:
    q_gate, k, v = (
        torch.randn(batch, (2 * HEADS + 2 * KV_HEADS) * DIM)
        .to(dtype)
        .split([2 * HEADS * DIM, KV_HEADS * DIM, KV_HEADS * DIM], -1)
    )
    weight = torch.randn(DIM).to(dtype)
    q_norm, k_norm = (peer.Qwen3_5RMSNorm(DIM).to(dtype).requires_grad_(False) for _ in range(2))
    query = torch.randn(batch, HEADS, DIM).to(dtype)
    pool = torch.randn(2, batch * CONTEXT + 1, KV_HEADS, DIM).to(dtype)
    table = (1 + torch.randperm(batch * CONTEXT)).view(batch, CONTEXT).to(torch.int32)
    requests, lengths = torch.arange(batch), torch.full((batch,), CONTEXT)
    out, loc = torch.empty_like(query), table[:, -1].long()
    past = torch.randn(2, batch, KV_HEADS, CONTEXT - 1, DIM).to(dtype)

    def peer_norms() -> Tensor:
        q, gate = q_gate.view(batch, 1, HEADS, 2 * DIM).chunk(2, -1)
        q_norm(q), k_norm(k.view(batch, 1, KV_HEADS, DIM))
        return gate.reshape(batch, 1, -1)

    def peer_attention() -> Tensor:
        new = (x.view(batch, KV_HEADS, 1, DIM) for x in (k, v))
        keys, values = (torch.cat((old, x), 2) for old, x in zip(past, new, strict=True))
        keys, values = (peer.repeat_kv(x, HEADS // KV_HEADS) for x in (keys, values))
        return F.scaled_dot_product_attention(query.unsqueeze(2), keys, values).transpose(1, 2).contiguous()

    x, gate = torch.randn(2, batch, HEADS * DIM).to(dtype)
    return [
        (
            "query and key norms",
            lambda: fused_qk_gemma_rmsnorm_with_gate_cpu(q_gate, k, weight, weight, 1e-6, DIM, HEADS),
            peer_norms,
            2 * (q_gate.numel() + k.numel()) * k.element_size(),
        ),
        (
            f"attention over {CONTEXT}",
            lambda: decode_attention_cpu(
                query, pool[0], pool[1], 1.0, 1.0, out, k, v, loc, None, table, requests, lengths, DIM**-0.5,
                0.0, False, 0, None, None,
            ),
            peer_attention,
            2 * batch * CONTEXT * KV_HEADS * DIM * k.element_size() + 2 * query.nbytes,
        ),
        (
            "output gate",
            lambda: fused_sigmoid_mul_cpu(x, gate),
            lambda: x * torch.sigmoid(gate),
            3 * x.nbytes,
        ),
    ]  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--dtype", choices=["float32", "bfloat16"], default="bfloat16")
    parser.add_argument("--json", type=Path, help="also write the rows to this file")
    arguments = parser.parse_args()
    torch.set_num_threads(arguments.threads)
    torch.manual_seed(0)
    dtype = getattr(torch, arguments.dtype)
    bytes_per_us = bandwidth()
    print(f"{arguments.dtype}, {arguments.threads} thread(s), copy at {bytes_per_us / 1e3:.1f} GB/s")
    print(f"{'operation':<20} {'batch':>5} {'ours us':>8} {'transformers us':>16} {'floor bytes':>12} "
          f"{'floor us':>9} {'of floor':>9}")  # fmt: skip
    rows = []
    for batch in (1, 8):
        for name, ours, theirs, floor in gdn_cases(batch, dtype) + attention_cases(batch, dtype):
            row = Row(name, batch, best_us(ours), best_us(theirs), floor, floor / bytes_per_us)
            rows.append(row)
            print(f"{name:<20} {batch:>5} {row.ours_us:>8.1f} {row.peer_us:>16.1f} {floor:>12} "
                  f"{row.floor_us:>9.1f} {row.floor_us / row.ours_us:>9.0%}")  # fmt: skip
    if arguments.json:
        facts = {"torch": torch.__version__, "threads": arguments.threads, "dtype": arguments.dtype}
        facts["copy_gb_per_s"] = round(bytes_per_us / 1e3, 2)
        arguments.json.write_text(
            json.dumps(facts | {"rows": [asdict(row) for row in rows]}, indent=2) + "\n"
        )


if __name__ == "__main__":
    main()
