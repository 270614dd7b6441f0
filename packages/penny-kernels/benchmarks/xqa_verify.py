"""FlashInfer's XQA kernels as stock SGLang verifies drafts with them: numbers and time, width by width.

    python xqa_verify.py --out xqa.json                      # on a GPU; builds what is missing, minutes for each kind
    python xqa_verify.py --out xqa.json --widths 8 --kv fp8 --contexts 16384 --pages 64 128
    python xqa_verify.py --out xqa.json --rehearse           # without a GPU: float32 stands in for the kernels

The shape is that of Qwen3.8-27B: 24 query heads, 4 key heads, 256 wide; stock's call, layout, mask and workspace
(``trtllm_mha_backend.py``), its page table as wide as ``--table-tokens``.

**Numbers.** Each case runs eagerly and as a CUDA graph, which is replayed twice with changed inputs: queries, pages,
lengths (not multiples of a page, one for each request), the block itself, and the second time other masks than a chain.
Outputs are filled with NaN before. The truth is attention in float64 over the stored values. About half of every row's
weight lies on the block, so that a wrong bit shows: ``one_bit`` is the error that the least visible single bit makes.
A row is a draft token, all its heads. ``error`` is that of all rows together and must stay below ``tolerance``,
``worst_row`` below twice that, relative, both by norms. bfloat16 keeps 8 bits, and rounding the result alone makes
0.0017: 0.005. On capability 9.0 FlashInfer's own kernel for an FP8 cache takes blocks of more than 32 rows (width x 6)
and rounds queries and weights to FP8, 4 bits: 0.1. Other masks than a chain are reported and do not decide, as stock
sends none.

**Time.** A graph of calls over enough caches that none is still in the L2, replayed; median. The floor is the bytes of
keys and values that must be read over the bandwidth of a large copy in the same run (both ways counted). Peers in the
same run: stock's Triton verification, and for bfloat16 PyTorch's attention on keys and values laid out for it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from xqa_inputs import DIM, DTYPES, HEADS, KV_HEADS, SCALE, Cache, Case, Inputs

from penny_kernels.ops.verify_attention import verify_attention

COLD_BYTES = 256 * 2**20
"""Caches of one timed graph, together: more than four times the L2 of an H200."""
MOST_CALLS = 48
WORKSPACE = (8 + 512) * 2**20
"""Stock's: semaphores in front of its 512 MiB."""


def xqa(inputs: Inputs, cache: Cache, workspace: Tensor, table_tokens: int) -> None:
    """Stock's call of a fixed-width verification (``_run_fixed_q_len_decode``)."""
    import flashinfer

    flashinfer.decode.trtllm_batch_decode_with_kv_cache(
        query=inputs.query,
        kv_cache=(cache.keys.permute(0, 2, 1, 3), cache.values.permute(0, 2, 1, 3)),
        workspace_buffer=workspace,
        block_tables=inputs.table,
        seq_lens=inputs.lengths,
        max_seq_len=table_tokens,
        bmm1_scale=SCALE,
        bmm2_scale=1.0,
        window_left=-1,
        out=inputs.out,
        q_len_per_req=inputs.case.width,
        mask=inputs.mask,
    )


def triton(inputs: Inputs, cache: Cache) -> Callable[[], None]:
    """Stock's Triton verification of the same inputs; the index tensors are made here, outside of the time."""
    from sglang.kernels.ops.attention.extend_attention import extend_attention_fwd

    case, device = inputs.case, inputs.query.device
    prefix = (inputs.lengths - case.width).long()
    at = torch.cat([torch.arange(int(n), device=device) + i * 2**32 for i, n in enumerate(prefix)])
    row, token = at >> 32, at & (2**32 - 1)
    slots = inputs.table[row, token // case.page].long() * case.page + token % case.page
    kv_starts = F.pad(prefix.cumsum(0), (1, 0)).int()
    q_starts = torch.arange(0, (case.batch + 1) * case.width, case.width, dtype=torch.int32, device=device)
    masks = [F.pad(s, (int(n), 0), value=True).flatten() for s, n in zip(inputs.seen, prefix, strict=True)]
    mask_starts = F.pad(((prefix + case.width) * case.width).cumsum(0), (1, 0))
    mask = torch.cat(masks)
    block = cache.block(inputs.table, inputs.lengths)
    keys, values = (x[block].to(inputs.query.dtype) for x in (cache.keys, cache.values))
    pools = cache.keys.flatten(0, 1), cache.values.flatten(0, 1)

    def call() -> None:
        extend_attention_fwd(
            inputs.query,
            keys,
            values,
            inputs.out,
            *pools,
            q_starts,
            kv_starts,
            slots,
            mask,
            True,
            mask_starts,
            case.width,
            1.0,
            1.0,
            sm_scale=SCALE,
            page_size=case.page,
        )

    return call


def sdpa(inputs: Inputs, cache: Cache) -> Callable[[], None]:
    """PyTorch's attention, all requests of one length, keys and values gathered before."""
    case, length = inputs.case, int(inputs.lengths[0])
    pages = inputs.table[:, : cache.each].long()
    keys, values = (
        x[pages].flatten(1, 2)[:, :length].transpose(1, 2).contiguous() for x in (cache.keys, cache.values)
    )
    group = HEADS // KV_HEADS
    mask = F.pad(inputs.seen, (length - case.width, 0), value=True).repeat_interleave(group, 1)[:, None]
    query = (
        inputs.query.view(case.batch, case.width, KV_HEADS, group, DIM).permute(0, 2, 1, 3, 4).flatten(2, 3)
    )

    def call() -> None:
        out = F.scaled_dot_product_attention(query, keys, values, attn_mask=mask)
        inputs.out.copy_(
            out.unflatten(2, (case.width, group)).permute(0, 2, 1, 3, 4).reshape(inputs.out.shape)
        )

    return call


def compare(found: Tensor, truth: Tensor) -> dict[str, Any]:
    """Relative errors by norms, of all rows and of the worst; ``nan`` counts outputs that are not a number."""
    found = found.double()
    missing = int(found.isnan().sum())
    off = (found - truth).flatten(1).norm(dim=1) / truth.flatten(1).norm(dim=1)
    return {
        "error": float((found - truth).norm() / truth.norm()) if not missing else None,
        "worst_row": float(off.max()) if not missing else None,
        "nan": missing,
    }


def one_bit(inputs: Inputs) -> float:
    """Least error in a row that one wrong bit of a chain makes: the last row's first token, the first row's second."""
    truth, wrong = inputs.truth(), inputs.seen.clone()
    wrong[:, -1, 0] = False
    wrong[:, 0, 1] = True
    off = (inputs.truth(wrong) - truth).flatten(1).norm(dim=1) / truth.flatten(1).norm(dim=1)
    rows = off.unflatten(0, (inputs.case.batch, inputs.case.width))
    return float(rows[:, [0, -1]].min())


def capture(call: Callable[[], None]) -> torch.cuda.CUDAGraph:
    """The call as a CUDA graph, after a run that builds and compiles what it needs."""
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        call()
    return graph


def microseconds(calls: list[Callable[[], None]]) -> float:
    """Median time of one call, over replays of a graph of all."""

    def every() -> None:
        for call in calls:
            call()

    graph, times = capture(every), []
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    while len(times) < 5 or (len(times) < 30 and sum(times) < 60_000):
        start.record()
        graph.replay()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end) * 1e3)
    return statistics.median(times[1:]) / len(calls)


def bandwidth() -> float:
    """Bytes per microsecond of a copy of 4 GiB, both ways counted."""
    source = torch.randn(2**30, dtype=torch.float32, device="cuda")
    target = torch.empty_like(source)
    return 2 * source.nbytes / microseconds([lambda: target.copy_(source)])


def tolerance(case: Case, capability: tuple[int, int]) -> float:
    """The bound on the error of all rows, as the head of this file derives it."""
    hopper = capability[0] == 9 and case.kv == "fp8" and case.width * (HEADS // KV_HEADS) > 32
    return 0.1 if hopper else 0.005


def check(inputs: Inputs, call: Callable[[], None], graph: bool) -> list[dict[str, Any]]:
    """Runs the call eagerly, then replayed with changed inputs; one row each."""
    rows: list[dict[str, Any]] = []

    def row(run: Callable[[], None], how: str, mask: str) -> None:
        inputs.out.fill_(float("nan"))
        run()
        rows.append({"run": how, "mask": mask} | compare(inputs.out, inputs.truth()))

    row(call, "eager", "chain")
    replay = capture(call).replay if graph else call
    row(replay, "replay", "chain")
    inputs.draw(step=1, chain=True)
    row(replay, "replay, changed", "chain")
    inputs.draw(step=3, chain=False)
    row(replay, "replay, changed again", "other")
    return rows


def measure(case: Case, args: argparse.Namespace, workspace: Tensor, rate: float) -> dict[str, Any]:
    """One case's row: errors, times, floor."""
    rehearse = args.rehearse
    device = "cpu" if rehearse else "cuda"
    inputs = Inputs(case, device, args.table_tokens, seed=case.width * 1000 + case.batch)
    caches = [inputs.cache]

    def ours(cache: Cache) -> Callable[[], None]:
        if rehearse:
            query = inputs.query.unflatten(0, (case.batch, case.width))
            rest = inputs.table, inputs.lengths, inputs.seen, SCALE, torch.float32
            return lambda: inputs.out.copy_(
                verify_attention(query, cache.keys, cache.values, *rest).flatten(0, 1)
            )  # type: ignore[func-returns-value]
        return lambda: xqa(inputs, cache, workspace, args.table_tokens)

    bit = one_bit(inputs)
    rows = check(inputs, ours(inputs.cache), graph=not rehearse)
    bound = tolerance(case, (0, 0) if rehearse else torch.cuda.get_device_capability())
    chains = [row for row in rows if row["mask"] == "chain"]
    good = all(not r["nan"] and r["error"] < bound and r["worst_row"] < 2 * bound for r in chains)
    found = asdict(case) | {"tolerance": bound, "one_bit": bit, "passes": good, "checks": rows}
    if rehearse or args.no_time:
        return found
    inputs.draw(step=0, chain=True)
    read = 2 * case.batch * (case.context + case.width) * KV_HEADS * DIM * inputs.cache.keys.element_size()
    while len(caches) * read < COLD_BYTES and len(caches) < MOST_CALLS:
        caches.append(Cache(case, device, seed=len(caches)))
    found |= {"read_bytes": read, "floor_us": read / rate, "xqa_us": microseconds([ours(c) for c in caches])}
    found["share_of_floor"] = found["floor_us"] / found["xqa_us"]
    peers: dict[str, Callable[..., Callable[[], None]]] = {"triton": triton}
    if case.kv == "bf16":
        peers["sdpa"] = sdpa
    for name, peer in peers.items():
        try:
            calls = [peer(inputs, cache) for cache in caches]
            inputs.out.fill_(float("nan"))
            calls[0]()
            found[f"{name}_check"] = compare(inputs.out, inputs.truth())
            found[f"{name}_us"] = microseconds(calls)
        except Exception as error:  # noqa: BLE001 - a peer that fails must not end the measurement
            found[f"{name}_failed"] = str(error)[-500:]
    return found


def cases(args: argparse.Namespace) -> Iterator[Case]:
    """Every combination; the first page size with all widths, the others with ``--other-widths`` only."""
    for kv in args.kv:
        for page in args.pages:
            for width in args.widths if page == args.pages[0] else args.other_widths:
                for batch in args.batches:
                    for context in args.contexts:
                        yield Case(width, batch, context, kv, page)


def main() -> int:
    """Measures case after case and keeps the file up to date, so that a run that is cut short still counts."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--widths", type=int, nargs="+", default=list(range(2, 17)))
    parser.add_argument(
        "--other-widths", type=int, nargs="+", default=[8], help="with all page sizes but the first"
    )
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 4])
    parser.add_argument("--contexts", type=int, nargs="+", default=[1024, 16384, 131072])
    parser.add_argument("--kv", choices=tuple(DTYPES), nargs="+", default=list(DTYPES))
    parser.add_argument("--pages", type=int, nargs="+", default=[64, 16, 32, 128])
    parser.add_argument(
        "--table-tokens", type=int, default=262144, help="width of the page table, as stock has it"
    )
    parser.add_argument("--budget", type=float, default=400.0, help="seconds after which no case is begun")
    parser.add_argument("--no-time", action="store_true", help="numbers only")
    parser.add_argument("--rehearse", action="store_true", help="without a GPU")
    args = parser.parse_args()
    begun, rows = time.monotonic(), list[dict[str, Any]]()
    if args.rehearse:
        args.contexts, args.table_tokens = [min(c, 300) for c in args.contexts[:1]], 512
        gpu, rate, workspace = "none: rehearsed on a CPU", 0.0, torch.empty(0)
    else:
        gpu = "{}, capability {}.{}".format(torch.cuda.get_device_name(), *torch.cuda.get_device_capability())
        rate, workspace = bandwidth(), torch.zeros(WORKSPACE, dtype=torch.uint8, device="cuda")
    wanted = list(cases(args))
    for number, case in enumerate(wanted, 1):
        if time.monotonic() - begun > args.budget:
            break
        try:
            row = measure(case, args, workspace, rate)
        except (AssertionError, RuntimeError, TypeError, ValueError) as error:
            row = asdict(case) | {"passes": False, "failed": str(error)[-1500:]}
        rows.append(row)
        short = {
            k: round(v, 4) if isinstance(v, float) else v
            for k, v in row.items()
            if k not in ("checks", "failed")
        }
        print(f"{number}/{len(wanted)} {json.dumps(short)} {row.get('failed', '')[-300:]}", flush=True)
        document = {
            "what": "XQA verification of a block: numbers against float64, time beside stock's Triton kernel",
            "command": "python packages/penny-kernels/benchmarks/xqa_verify.py --out FILE",
            "gpu": gpu,
            "versions": {"torch": torch.__version__},
            "copy_gb_per_s": rate / 1e3,
            "seconds": round(time.monotonic() - begun, 1),
            "left_out": len(wanted) - number,
            "passed": sum(r["passes"] for r in rows),
            "cases": rows,
        }
        args.out.write_text(json.dumps(document, indent=1) + "\n")
        if "failed" in row and not args.rehearse and "CUDA error" in row["failed"]:
            break  # a context that broke answers nothing more
    print(f"{sum(r['passes'] for r in rows)} of {len(wanted)} cases pass")
    return 0 if len(rows) == len(wanted) and all(r["passes"] for r in rows) else 1


if __name__ == "__main__":
    sys.exit(main())
