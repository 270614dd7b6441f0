"""What a real start tells: weights by bytes, the plan against what the server got, and assertions that stop it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil
from conftest import START_LIMIT_S, Server, free_port

PENNY = str(Path(sys.executable).with_name("penny"))
PROFILE = """\
name = "promises"
extends = "tiny-27b"
summary = "tiny-27b that promises more than it has"
[assert]
pool_tokens = 20000
[assert.backends]
"sampling" = "FlashInfer*"
"""


def events(server: Server) -> list[dict]:
    return [json.loads(line) for line in (server.run_dir / "events.jsonl").read_text().splitlines()]


def output(server: Server) -> list[dict]:
    lines = (server.run_dir.parent / "supervisor.jsonl").read_text().splitlines()
    return [json.loads(line) for line in lines if line.startswith("{")]


def test_weights_are_told_by_the_bytes_of_their_tensors(server: Server, checkpoint: Path) -> None:
    from safetensors.torch import load_file

    total = sum(t.nbytes for file in checkpoint.glob("*.safetensors") for t in load_file(file).values())
    told = [e for e in events(server) if (e["phase"], e["state"]) == ("weights", "progress")]
    assert len(told) >= 2
    assert {e["detail"]["of"] for e in told} == {total}
    assert [e["detail"]["bytes"] for e in told] == sorted(e["detail"]["bytes"] for e in told)
    assert told[-1]["detail"]["fraction"] == 1.0
    ends = [e["t"] for e in events(server) if (e["phase"], e["state"]) == ("weights", "end")]
    assert told[-1]["t"] <= ends[0]


def test_the_server_is_within_two_percent_of_its_plan(server: Server) -> None:
    (plan,) = [line for line in output(server) if line["event"] == "plan"]
    found = {row["name"]: row for row in plan["rows"]}
    assert {"weights", "KV pool", "KV pool's memory", "recurrent slots", "concurrent requests"} <= set(found)
    assert {name: row["why"] for name, row in found.items()} == dict.fromkeys(found, "")
    assert max(abs(row["difference"]) for row in found.values()) <= 0.02
    info = server_info(server)
    assert found["KV pool"]["found"] == info["max_total_num_tokens"] == 16384
    listed = subprocess.run(
        [PENNY, "status", "--json", "--log-dir", str(server.run_dir.parent)],
        capture_output=True,
        text=True,
        check=True,
    )
    (run,) = json.loads(listed.stdout)
    assert "The KV pool of 16,384 tokens is as planned." in run["notes"]
    # The dtype was set by hand, so that the profile's assertion about the cache does not hold it.
    assert (
        "The assertion backends.KV cache of the profile is not held, because dtype was changed."
        in run["notes"]
    )


def server_info(server: Server) -> dict:
    import httpx

    return dict(httpx.get(f"{server.url}/server_info", timeout=30).json())


def test_an_assertion_that_fails_stops_the_start(tmp_path: Path) -> None:
    (tmp_path / "promises.toml").write_text(PROFILE)
    command = [PENNY, "serve", str(tmp_path / "promises.toml"), "--device", "cpu", "--port", str(free_port())]
    process = subprocess.Popen(
        [*command, "--log-dir", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    said, _ = process.communicate(timeout=START_LIMIT_S)
    assert process.returncode == 5
    words = " ".join(said.split())
    assert "The server is not what the profile promises promises, so it was stopped." in words
    assert "[assert] pool_tokens: the KV pool holds 16,384 tokens, and at least 20,000 are asserted." in words
    assert "[assert] backends.sampling: sampling got Sampler, and FlashInfer* is asserted." in words
    assert "Ready in" not in said
    (state,) = [json.loads(file.read_text()) for file in tmp_path.rglob("state.json")]
    assert state["state"] == "failed"
    log = next(tmp_path.rglob("seams.jsonl")).read_text()
    pids = {json.loads(line)["pid"] for line in log.splitlines()}
    assert pids
    assert not [pid for pid in pids if psutil.pid_exists(pid)]
