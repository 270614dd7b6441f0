"""Decode of tiny-27b on this CPU in bfloat16: ``penny serve`` against transformers ``generate``, in one run.

    python decode_cpu.py --out result.json

Prints start time, memory (PSS: shared pages counted once), decode rates at 1 and 8 streams, and transformers' rate
with its cache, at 1 thread and at every core. One stream is measured as transformers is, by the whole answer and
with the prefill taken off, and also as a client sees it streamed by ``penny-bench``; 8 streams by ``penny-bench``.
The floor is the weights' bytes over the measured copy bandwidth of one core: no step of one stream can take less.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any

import torch
from transformers import Qwen3_5ForConditionalGeneration

from penny_models import tiny

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "serving"))
from conftest import Server, start, stop

TOKENS, RUNS = 256, 3


def pss_bytes(server: Server) -> int:
    """Proportional set size of the supervisor and all processes of the server."""
    total = 0
    for process in server.processes():
        lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
        total += 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total


def served(server: Server, folder: Path) -> list[dict[str, Any]]:
    """Rates of the running server, as ``penny-bench decode`` measures them."""
    out = folder / "decode.json"
    bench = Path(sys.executable).with_name("penny-bench")
    command = [str(bench), "decode", "--url", server.url, "--concurrency", "1,8"]
    command += ["--tokens", str(TOKENS), "--runs", str(RUNS), "--json", str(out)]
    subprocess.run(command, check=True)
    return json.loads(out.read_text())["summary"]


def rates(seconds: Callable[[int], float]) -> list[float]:
    """Tokens per second where ``seconds(n)`` is the time of an answer of n tokens: the prefill is taken off."""
    seconds(8)
    return [TOKENS / (seconds(TOKENS + 1) - seconds(1)) for _ in range(RUNS)]


def whole_answers(server: Server) -> list[float]:
    """Rates of one stream of the server, answers not streamed, each after a prompt of its own."""
    prompts = count()

    def seconds(tokens: int) -> float:
        prompt = torch.randint(
            10, 3000, (128,), generator=torch.Generator().manual_seed(next(prompts))
        ).tolist()
        begin = time.perf_counter()
        server.generate(prompt, tokens)
        return time.perf_counter() - begin

    return rates(seconds)


def transformers_rates(checkpoint: Path, threads: int) -> list[float]:
    """Rates of greedy ``generate`` with its cache, after a prompt of 128 tokens."""
    torch.set_num_threads(threads)
    model = Qwen3_5ForConditionalGeneration.from_pretrained(checkpoint, dtype=torch.bfloat16).eval()
    model.generation_config.eos_token_id = None
    prompt = torch.randint(10, 3000, (1, 128), generator=torch.Generator().manual_seed(27))
    options = {"attention_mask": torch.ones_like(prompt), "do_sample": False, "pad_token_id": 0}

    def seconds(tokens: int) -> float:
        begin = time.perf_counter()
        model.generate(prompt, max_new_tokens=tokens, **options)
        return time.perf_counter() - begin

    with torch.inference_mode():
        return rates(seconds)


def copy_bandwidth() -> float:
    """Bytes per second that one core reads in a copy of 256 MiB (bytes read; as many are written)."""
    torch.set_num_threads(1)
    source = torch.ones(2**26)
    target = torch.empty_like(source)
    times = []
    for _ in range(5):
        begin = time.perf_counter()
        target.copy_(source)
        times.append(time.perf_counter() - begin)
    return source.numel() * 4 / min(times)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    checkpoint = tiny.path("tiny-27b")
    with tempfile.TemporaryDirectory() as name:
        begin = time.perf_counter()
        server = start(Path(name), "--device", "cpu")
        start_s = time.perf_counter() - begin
        try:
            alone = whole_answers(server)
            rows = served(server, Path(name))
            memory = pss_bytes(server)
        finally:
            stop(server)
    peers = {n: transformers_rates(checkpoint, n) for n in sorted({1, os.cpu_count() or 1})}
    streamed, eight = (row["aggregate"]["median"] for row in rows)
    one = statistics.median(alone)
    peer = max(statistics.median(rates) for rates in peers.values())
    size = sum(file.stat().st_size for file in checkpoint.glob("*.safetensors"))
    floor_s = size / copy_bandwidth()
    result = {
        "command": "python benchmarks/decode_cpu.py --out FILE",
        "machine": {"cores": os.cpu_count(), "cpu": platform.processor() or platform.machine()},
        "start_s": round(start_s, 1),
        "pss_bytes": memory,
        "tokens_each": TOKENS,
        "c1_tokens_per_s": one,
        "c1_runs": alone,
        "c1_streamed_tokens_per_s": streamed,
        "c8_tokens_per_s": eight,
        "transformers_tokens_per_s_by_threads": peers,
        "c1_over_transformers": one / peer,
        "c8_over_c1": eight / max(one, streamed),
        "floor": {"weight_bytes": size, "step_s": floor_s, "share_reached_at_c1": floor_s * one},
        "summary": rows,
    }
    args.out.write_text(json.dumps(result, indent=1) + "\n")
    print(f"start {start_s:.1f} s, PSS {memory / 1e9:.2f} GB")
    print(f"C1 {one:.1f} tok/s ({streamed:.1f} streamed), transformers {peer:.1f}: {one / peer:.2f}x")
    print(f"C8 {eight:.1f} tok/s: {eight / max(one, streamed):.2f}x C1")
    print(f"C1 reaches {floor_s * one:.1%} of the rate at which one core could read the weights")


if __name__ == "__main__":
    main()
