"""Compares the planner with real starts: stock SGLang through our launcher, with weights of noise.

    python planner_gpu.py --device cuda --out planner-gpu.json     # on a GPU machine, about five minutes
    python planner_gpu.py --device cpu --out planner-cpu.json      # the tiny models, without a GPU

Each case writes a config.json and a profile, starts the server, waits for the pool in its log and asks /server_info,
then ends it. The plan is made before the start, from the config.json and the memory of the machine alone.
Exit code 1 when a pool differs by more than --within percent.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import re
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

import httpx

from penny_models import tiny
from penny_models.shapes import known_config, merged
from penny_server.plan import (
    GPUS,
    Machine,
    PlanSettings,
    Source,
    cpu,
    make_plan,
    of_size,
    settings_of,
    with_block,
)
from penny_server.plan.constants import GIB
from penny_server.profiles import Launch, Overrides, Surroundings, load, resolve
from penny_server.serving.choose import surroundings

TEXT_ONLY: dict[str, Any] = {"language_model_only": True}
"""Weights of noise have no image processor beside them."""
SMALL_TABLE: dict[str, Any] = {"text_config": {"ngram_vocab_size_base": 200_000, "split_ngram_parts": 4}}
"""The PLE table is on the host: a hundredth of it starts faster and changes nothing on the GPU."""
COMMON = """
name = "{name}"
summary = "a start that the planner is compared with"
model = {{ path = "{folder}" }}
features = []
[sglang]
dtype = "bfloat16"
load_format = "dummy"
skip_tokenizer_init = true
skip_server_warmup = true
page_size = 64
context_length = 65536
chunked_prefill_size = 2048
mamba_radix_cache_strategy = "extra_buffer"
attention_backend = "triton"
linear_attn_backend = "triton"
fp8_gemm_runner_backend = "triton"
cuda_graph_backend_decode = "disabled"
cuda_graph_backend_prefill = "disabled"
{settings}
[cuda]
"""


@dataclass(frozen=True)
class Case:
    """One start: a shipped config with changes, and settings as lines of TOML."""

    name: str
    config: str
    settings: str
    changes: dict[str, Any] = field(default_factory=dict)
    draft: str | None = None


SPECULATION = """
speculative_algorithm = "NEXTN"
speculative_num_steps = 3
speculative_eagle_topk = 1
speculative_num_draft_tokens = 4
"""
FLASH_NEXT = """
mem_fraction_static = 0.88
max_running_requests = 4
max_mamba_cache_size = 24
mamba_ssm_dtype = "bfloat16"
quantization = "modelopt_fp4"
moe_runner_backend = "marlin"
"""
GPU_CASES = (
    Case(
        "27B FP8, FP8 KV, 24 slots of float32",
        "qwen38-27b-fp8",
        'kv_cache_dtype = "fp8_e4m3"\nmem_fraction_static = 0.85\nmax_running_requests = 4\nmax_mamba_cache_size = 24',
    ),
    Case(
        "27B BF16, slots of bfloat16 sized automatically",
        "qwen38-27b",
        'mem_fraction_static = 0.9\nmax_running_requests = 16\nmamba_ssm_dtype = "bfloat16"',
    ),
    Case("Flash-Next NVFP4, 24 slots of bfloat16", "flash-next-nvfp4", FLASH_NEXT, SMALL_TABLE),
    Case(
        "27B FP8, NEXTN, slots sized automatically",
        "qwen38-27b-fp8",
        "mem_fraction_static = 0.8\nmax_running_requests = 8" + SPECULATION,
    ),
    Case(
        "27B FP8, DFlash2, 24 slots",
        "qwen38-27b-fp8",
        "mem_fraction_static = 0.85\nmax_running_requests = 4\nmax_mamba_cache_size = 24\n"
        'speculative_algorithm = "DFLASH"\nspeculative_num_draft_tokens = 8\nspeculative_draft_window_size = 2048\n'
        'speculative_draft_model_path = "{draft}"\nspeculative_draft_model_quantization = "unquant"\n'
        'speculative_draft_attention_backend = "triton"',
        draft="dflash2-27b",
    ),
    Case(
        "Flash-Next NVFP4, NEXTN",
        "flash-next-nvfp4",
        FLASH_NEXT + 'speculative_moe_runner_backend = "triton"' + SPECULATION,
        SMALL_TABLE,
    ),
)
"""In the order in which they matter: the last ones are not started when time is short."""
AUTOMATIC: dict[str, Any] = {
    "max_total_tokens": None,
    "max_mamba_cache_size": None,
    "mem_fraction_static": 0.3,
}
NEXTN = {
    "speculative_algorithm": "NEXTN",
    "speculative_num_steps": 3,
    "speculative_eagle_topk": 1,
    "speculative_num_draft_tokens": 4,
}
PLAIN: dict[str, Any] = {"speculative_algorithm": None}
CPU_PROFILES = ("tiny-27b", "tiny-next")
CPU_CASES: dict[str, dict[str, Any]] = {
    "capped by the profile": PLAIN,
    "sized automatically": AUTOMATIC | PLAIN,
    "NEXTN, sized automatically": AUTOMATIC | NEXTN,
}
"""Of each profile."""
LEAST_START = 30.0
"""Seconds below which a start is not tried."""
POOL = re.compile(r"max_total_num_tokens=(\d+)")
ALLOCATED = re.compile(r"KV Cache is allocated\.[^\n]*?#tokens: (\d+)")
SLOTS = re.compile(r"max_mamba_cache_size: (\d+)")
LOAD = re.compile(r"Load weight begin\. avail mem=([\d.]+) GB")
LOADED = re.compile(r"Load weight end\.[^\n]*?avail mem=([\d.]+) GB")
ENDED = re.compile(r"Memory pool end\. avail mem=([\d.]+) GB")


def main() -> int:
    """Runs the cases and writes what they gave."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--only", default="", help="run the cases whose name holds this text")
    parser.add_argument("--model", type=Path, help="on a CPU, the checkpoint instead of the profile's own")
    parser.add_argument("--budget", type=float, default=350.0, help="seconds for all cases together")
    parser.add_argument("--limit", type=float, default=150.0, help="seconds that one start may take")
    parser.add_argument("--within", type=float, default=2.0, help="percent that a pool may differ")
    parser.add_argument("--port", type=int, default=8011)
    asked = parser.parse_args()
    begun = time.monotonic()
    rows: list[dict[str, Any]] = []
    with tempfile.TemporaryDirectory(prefix="planner-") as folder:
        for name, launch, source in _cases(asked, Path(folder)):
            if asked.only not in name:
                continue
            if time.monotonic() - begun > asked.budget - LEAST_START:
                rows.append({"case": name, "error": "not started: the budget was used up"})
            else:
                rows.append(_compare(name, launch, source, asked, Path(folder), begun + asked.budget))
            print(json.dumps(rows[-1]), flush=True)
            _write(asked, rows, time.monotonic() - begun)
    missed = [row for row in rows if abs(row.get("difference_percent", 100.0)) > asked.within]
    print(f"{len(rows) - len(missed)} of {len(rows)} pools within {asked.within} %")
    return 1 if missed else 0


def _cases(asked: argparse.Namespace, folder: Path) -> list[tuple[str, Launch, Source]]:
    if asked.device == "cpu":
        names = [(profile, case) for profile in CPU_PROFILES for case in CPU_CASES]
        chosen = [(profile, case) for profile, case in names if asked.only in f"{profile}, {case}"]
        return [
            (f"{profile}, {case}", *_cpu_case(profile, CPU_CASES[case], asked)) for profile, case in chosen
        ]
    return [(case.name, *_gpu_case(case, folder, asked.port)) for case in GPU_CASES]


def _cpu_case(name: str, changes: dict[str, Any], asked: argparse.Namespace) -> tuple[Launch, Source]:
    path = asked.model or Path(tiny.path(name))
    source = Source(json.loads((path / "config.json").read_text(encoding="utf-8")), path)
    return resolve(load(name), "cpu", path, surroundings(), Overrides(changes), port=asked.port), source


def _gpu_case(case: Case, folder: Path, port: int) -> tuple[Launch, Source]:
    place = folder / re.sub(r"\W+", "-", case.name)
    config = merged(merged(known_config(case.config), TEXT_ONLY), case.changes)
    _write_config(place, config)
    draft = known_config(case.draft) if case.draft else None
    if draft:
        _write_config(place / "draft", draft)
    settings = case.settings.replace("{draft}", str(place / "draft"))
    profile = place / "profile.toml"
    profile.write_text(COMMON.format(name="planner", folder=place, settings=settings), encoding="utf-8")
    launch = resolve(load(str(profile)), "cuda", place, Surroundings(Path("standin"), 4), port=port)
    return launch, Source(config, place, draft, place / "draft")


def _write_config(folder: Path, config: dict[str, Any]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "config.json").write_text(json.dumps(config), encoding="utf-8")


def _machine(device: str) -> Machine:
    if device == "cpu":
        import psutil

        return cpu(psutil.virtual_memory().available)
    script = "import torch; print(torch.cuda.mem_get_info()[1], '%d.%d' % torch.cuda.get_device_capability())"
    total, capability = subprocess.run(
        [sys.executable, "-c", script], check=True, capture_output=True, text=True
    ).stdout.split()
    known = next((gpu for gpu in GPUS.values() if abs(gpu.usable - int(total)) < GIB), None)
    return known or of_size(int(total), capability)


def _compare(
    name: str, launch: Launch, source: Source, asked: argparse.Namespace, folder: Path, until: float
) -> dict[str, Any]:
    settings: PlanSettings = with_block(source, settings_of(launch))
    machine = _machine(asked.device)
    plan = make_plan(source, settings, machine)
    row: dict[str, Any] = {
        "case": name,
        "arguments": [
            arg.replace(str(launch.checkpoint), launch.checkpoint.name).replace(str(folder), "DIR")
            for arg in launch.args
        ],
        "planned": {"tokens": plan.pool.tokens, "slots": plan.pool.slots, "requests": plan.pool.requests},
        "planned_gib": {
            "machine": round(machine.usable / GIB, 3),
            "before_loading": round(plan.pool.before / GIB, 3),
            "after_loading": round(plan.pool.after / GIB, 3),
        },
    }
    begun = time.monotonic()
    log = folder / "server.log"
    with log.open("w", encoding="utf-8") as out:
        server = subprocess.Popen(
            launch.argv(sys.executable),
            env=launch.child_env(os.environ),
            stdout=out,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            info = _wait(server, log, launch.url, min(until, begun + asked.limit))
        finally:
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()
    text = log.read_text(encoding="utf-8", errors="replace")
    row["seconds"] = round(time.monotonic() - begun, 1)
    row["log_gib"] = {
        key: [float(value) for value in pattern.findall(text)]
        for key, pattern in (("before_loading", LOAD), ("after_loading", LOADED), ("after_pools", ENDED))
    }
    pool = info.get("max_total_num_tokens") or _last(POOL, text) or _first(ALLOCATED, text)
    if not pool:
        return row | {"error": "the server gave no pool", "log_end": _end(text, str(folder))}
    if asked.device == "cpu":
        # Other programs take and give host memory while a server starts, so the plan is made again from what it saw.
        plan = make_plan(source, settings, cpu(int(row["log_gib"]["before_loading"][0] * GIB)))
        row["planned"] = {
            "tokens": plan.pool.tokens,
            "slots": plan.pool.slots,
            "requests": plan.pool.requests,
        }
    row["server"] = {
        "tokens": int(pool),
        "slots": _last(SLOTS, text),
        "asked": "server_info" if info else "log",
    }
    row["difference_percent"] = round(100 * (plan.pool.tokens / int(pool) - 1), 3)
    if row["log_gib"]["after_loading"]:
        seen = row["log_gib"]["before_loading"][0] - row["log_gib"]["after_loading"][-1]
        row["loaded_gib"] = {"server": round(seen, 3), "planned": round(plan.need.loaded / GIB, 3)}
    return row


def _wait(server: subprocess.Popen[bytes], log: Path, url: str, until: float) -> dict[str, Any]:
    """What /server_info says, or nothing when the pool is only in the log."""
    seen = 0.0
    while time.monotonic() < until and server.poll() is None:
        time.sleep(0.5)
        if not POOL.search(log.read_text(encoding="utf-8", errors="replace")):
            continue
        seen = seen or time.monotonic()
        try:
            found: dict[str, Any] = httpx.get(f"{url}/server_info", timeout=5).json()
        except (httpx.HTTPError, ValueError):
            if time.monotonic() - seen > 20:
                break
            continue
        return found
    return {}


def _first(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.search(text)
    return int(found.group(1)) if found else None


def _last(pattern: re.Pattern[str], text: str) -> int | None:
    found = pattern.findall(text)
    return int(found[-1]) if found else None


def _end(text: str, folder: str) -> list[str]:
    lines = [line.replace(folder, "DIR") for line in text.splitlines() if "it/s" not in line]
    return [line[:300] for line in lines[-25:]]


def _write(asked: argparse.Namespace, rows: list[dict[str, Any]], seconds: float) -> None:
    document = {
        "what": "the planner against the pools of real starts of stock SGLang with weights of noise",
        "command": f"python packages/penny-server/benchmarks/planner_gpu.py --device {asked.device} --out FILE",
        "versions": {"sglang": version("sglang"), "python": platform.python_version()},
        "device": _device(asked.device),
        "seconds": round(seconds, 1),
        "within_percent": asked.within,
        "summary": [
            [
                row["server"]["tokens"],
                row["planned"]["tokens"],
                abs(round(row["difference_percent"] / 100, 6)),
            ]
            for row in rows
            if "server" in row
        ],
        "cases": rows,
    }
    asked.out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")


def _device(device: str) -> str:
    if device == "cpu":
        return f"{platform.machine()} CPU"
    query = ["nvidia-smi", "--query-gpu=name,memory.total,driver_version", "--format=csv,noheader"]
    return subprocess.run(query, check=True, capture_output=True, text=True).stdout.strip()


if __name__ == "__main__":
    sys.exit(main())
