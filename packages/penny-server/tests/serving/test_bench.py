"""penny-bench on the real server: the short form of its plan for the tiny model, and an interrupted run."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import httpx
import jsonschema
from conftest import Server

PREFLIGHT = 12
"""Requests that settle the protocol before a run, and some for the tests beside this one."""

PLAN = """
title = "The short form"
url = "URL"

[[run]]
workload = "decode-short"
set = { concurrency = [1, 4], tokens = 48, runs = 2 }
mark = [{ metric = "C1/stream", at_least = 1 }, { metric = "C4/aggregate", at_least = 1 }]

[[run]]
workload = "prefill-cold"
set = { prompt_tokens = [300, 2600], runs = 2, warmups = 1 }
mark = [{ metric = "prefill 2600/prefill", at_least = 1 }, { metric = "prefill 2600/ttft", at_most = 60 }]

[[run]]
workload = "interference"
set = { prompt_tokens = 2500, tokens = 600, lead = 1.0, lag = 0.5 }
mark = [{ metric = "together/prefill_ttft", at_most = 60 }, { metric = "together/rate_during", at_least = 0 }]

[[run]]
workload = "restore"
set = { sessions = 1, prompt_tokens = 1500, fill = 1 }

[[run]]
workload = "needles-490k"
set = { context = 1500, records = 2, tokens = 64 }

[[run]]
workload = "structured"
set = { cases = [], tokens = 192, runs = 1, warmups = 1 }

[[run]]
workload = "tools"
set = { cases = ["01", "02"], tokens = 64, long_tokens = 300 }
"""


def bench(*arguments: str | Path) -> list[str]:
    return [str(Path(sys.executable).with_name("penny-bench")), *map(str, arguments)]


def finished(server: Server) -> float:
    """Requests that the server has finished since it began."""
    lines = httpx.get(f"{server.url}/metrics/", timeout=60).text.splitlines()
    return sum(float(line.split()[-1]) for line in lines if line.startswith("sglang:num_requests_total"))


def test_the_short_plan_runs_whole_and_every_document_keeps_to_the_schema(
    server: Server, tmp_path: Path
) -> None:
    plan, out = tmp_path / "plan.toml", tmp_path / "out"
    plan.write_text(PLAN.replace("URL", server.url))
    command = bench("qualify", plan, "--out", out)
    done = subprocess.run(command, capture_output=True, text=True, timeout=900, check=False)
    found = json.loads((out / "qualification.json").read_text())
    missed = [mark for run in found["runs"] for mark in run["marks"] if not mark["passed"]]
    assert missed == [], done.stdout[-4000:] + done.stderr
    assert done.returncode == 0
    schema = json.loads(subprocess.run(bench("schema"), capture_output=True, check=True).stdout)
    for run in found["runs"]:
        document = json.loads((out / run["file"]).read_text())
        jsonschema.Draft202012Validator(schema).validate(document)
        assert document["server"]["info"]["server_info"]["version"] == "0.5.23"
        assert document["server"]["info"]["pools"]["tokens"] == 16384
    cold = json.loads((out / "prefill-cold.json").read_text())
    for request in cold["requests"]:
        spans, ttft = request["spans"], request["latency"]["ttft"]
        # The server's own times are inside what the client saw, and the chunked prefill is the most of it.
        assert 0 < spans["prefill"] <= spans["queue"] + spans["prefill"] <= ttft
    radix = json.loads((out / "restore.json").read_text())
    tiers = [r["cached"] for r in radix["requests"] if r["phase"] == "radix"]
    assert tiers[0]["device"] >= 1024
    assert tiers[0]["host"] == 0


def test_an_interrupted_run_is_kept_and_goes_on(server: Server, tmp_path: Path) -> None:
    part, whole = tmp_path / "part.json", tmp_path / "whole.json"
    flags = ["--url", server.url, "--load", "closed:concurrency=2", "--requests", "40", "--tokens", "64"]
    before = finished(server)
    process = subprocess.Popen(bench("run", *flags, "--warmups", "0", "--json", part))
    deadline = time.monotonic() + 120
    while finished(server) < before + PREFLIGHT + 4 and time.monotonic() < deadline:
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    assert process.wait(60) in (0, 130)
    document = json.loads(part.read_text())
    if document["status"] == "complete":  # a fast machine
        assert len(document["requests"]) == 40
        return
    command = bench("run", *flags, "--warmups", "0", "--resume", part, "--json", whole)
    subprocess.run(command, capture_output=True, timeout=300, check=True)
    again = json.loads(whole.read_text())
    assert [request["number"] for request in again["requests"]] == list(range(40))
    assert all(request["failure"] is None for request in again["requests"])
    assert len(again["earlier"]) == 1
