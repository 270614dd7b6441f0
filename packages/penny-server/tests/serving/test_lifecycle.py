"""A server's life as its user sees it: start-up phases, seams, memory, Ctrl-C at every moment, refusals."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import httpx
import psutil
import pytest
from conftest import START_LIMIT_S, Server, free_port, start, stop

PENNY = str(Path(sys.executable).with_name("penny"))
PHASES = ["identity", "imports", "weights", "pools", "graphs", "warm-up", "ready"]
MEMORY_LIMIT = 3_000_000_000


def descendants(pid: int) -> list[psutil.Process]:
    return psutil.Process(pid).children(recursive=True)


def alive(processes: list[psutil.Process]) -> list[psutil.Process]:
    return [p for p in processes if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]


@pytest.fixture
def serve() -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Starts ``penny serve`` and ends whatever a failed test leaves of it."""
    begun: list[subprocess.Popen[str]] = []

    def begin(tmp_path: Path, *options: str) -> subprocess.Popen[str]:
        begun.append(_serve(tmp_path, *options))
        return begun[-1]

    yield begin
    for process in begun:
        if process.poll() is None:
            process.kill()  # its guard ends the rest
            process.wait()


def _serve(tmp_path: Path, *options: str) -> subprocess.Popen[str]:
    command = [
        PENNY,
        "serve",
        "tiny-27b",
        "--device",
        "cpu",
        "--port",
        str(free_port()),
        "--log-dir",
        str(tmp_path),
    ]
    return subprocess.Popen([*command, *options], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)


def pss_bytes(processes: list[psutil.Process]) -> int:
    lines = [line for p in processes for line in Path(f"/proc/{p.pid}/smaps_rollup").read_text().splitlines()]
    return sum(1024 * int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def test_phases_come_in_order_and_each_took_time(server: Server) -> None:
    events = [json.loads(line) for line in (server.run_dir / "events.jsonl").read_text().splitlines()]
    begun = [e["phase"] for e in events if e["state"] == "begin"]
    assert begun == [phase for phase in PHASES if phase in begun]
    assert set(begun) >= {"imports", "weights", "pools", "graphs", "warm-up", "ready"}
    assert [e["t"] for e in events] == sorted(e["t"] for e in events)
    weights = next(e for e in events if (e["phase"], e["state"]) == ("weights", "end"))
    assert weights["detail"]["bytes"] > 4 * 3_000_000


def test_every_seam_of_the_profile_is_active_in_the_processes(server: Server) -> None:
    done = subprocess.run(
        [PENNY, "seams", "--run-dir", str(server.run_dir), "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    features = {"cpu", "progress", "pools", "requests", "seeds", "drain"}
    rows = [row for row in json.loads(done.stdout) if row["feature"] in features]
    assert {row["feature"] for row in rows} == features
    assert {row["state"] for row in rows} == {"active"}


def test_memory_of_all_processes_is_under_three_gigabytes(server: Server) -> None:
    assert pss_bytes(server.processes()) < MEMORY_LIMIT


def test_chat_command_talks_to_the_server(server: Server) -> None:
    done = subprocess.run(
        [PENNY, "chat", "--url", server.url, "--no-think"],
        input="Hello\n",
        capture_output=True,
        text=True,
        timeout=START_LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()


def test_second_server_on_the_same_port_is_refused(server: Server) -> None:
    port = server.url.rpartition(":")[2]
    done = subprocess.run(
        [PENNY, "serve", "tiny-27b", "--port", port], capture_output=True, text=True, timeout=START_LIMIT_S
    )
    assert done.returncode == 3
    assert f"Port {port} on 127.0.0.1 is in use" in done.stdout + done.stderr
    assert httpx.get(f"{server.url}/health").status_code == 200


@pytest.mark.parametrize("phase", ["imports", "weights"])
def test_ctrl_c_during_start_up_leaves_nothing(serve, tmp_path: Path, phase: str) -> None:
    process = serve(tmp_path)
    seen: list[psutil.Process] = []
    deadline = time.monotonic() + 180
    reached = False
    while not reached and time.monotonic() < deadline and process.poll() is None:
        seen = descendants(process.pid) or seen
        reached = any(f'"phase": "{phase}"' in file.read_text() for file in tmp_path.rglob("events.jsonl"))
        time.sleep(0.05)
    assert reached
    seen += [p for p in descendants(process.pid) if p not in seen]
    process.send_signal(signal.SIGINT)
    output, _ = process.communicate(timeout=START_LIMIT_S)
    assert process.returncode == 130, output
    assert "Traceback" not in output
    assert seen
    assert not alive(seen)


def test_ctrl_c_waits_for_a_stream_and_a_second_one_cuts_it(tmp_path: Path) -> None:
    running = start(tmp_path, "--device", "cpu")
    body = {"model": "tiny-27b", "prompt": "def f(", "max_tokens": 3000, "stream": True, "ignore_eos": True}
    events, refused = 0, httpx.Response(200)
    with (
        suppress(httpx.TransportError),  # the connection ends in the middle of the answer
        httpx.stream("POST", f"{running.url}/v1/completions", json=body, timeout=60) as response,
    ):
        for line in response.iter_lines():
            if line.startswith("data: "):
                events += 1
                if events == 10:
                    running.process.send_signal(signal.SIGINT)
                if events > 10 and events % 10 == 0 and refused.status_code == 200:
                    refused = running.post("/v1/completions", {**body, "max_tokens": 1, "stream": False})
                if (
                    events > 60 and refused.status_code != 200
                ):  # the running answer went on after the first one
                    assert stop(running) == 0
                    break
    assert 60 <= events < 3000
    assert refused.status_code == 503
    assert refused.headers["retry-after"] == "30"
    assert refused.json()["message"].startswith("The server is stopping:")
    with pytest.raises(httpx.TransportError):
        httpx.get(f"{running.url}/health")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            ("max_total_tokens=10000000000",),
            "The KV pool does not fit: max_total_tokens is 10,000,000,000, and ",
        ),
        (
            # Without a number of slots, which would be found too small before the start.
            ("max_running_requests=9000", "max_mamba_cache_size="),
            "The pools do not fit: max_running_requests is 9000, and they serve ",
        ),
    ],
)
def test_a_pool_that_does_not_fit_is_refused(
    serve, tmp_path: Path, settings: tuple[str, ...], message: str
) -> None:
    process = serve(tmp_path, *(word for setting in settings for word in ("--set", setting)))
    output, _ = process.communicate(timeout=START_LIMIT_S)
    assert process.returncode == 5
    assert f"error: {message}" in output


def test_a_server_without_its_plugin_is_refused(serve, tmp_path: Path) -> None:
    process = serve(tmp_path, "--set", "env.SGLANG_PLUGINS=other")
    output, _ = process.communicate(timeout=START_LIMIT_S)
    assert process.returncode == 3
    assert "error: SGLang did not load the plugin penny, so no seam is active" in output


def test_a_checkpoint_with_a_missing_tensor_is_refused_before_the_start(
    serve, tmp_path: Path, checkpoint: Path
) -> None:
    from safetensors.torch import load_file, save_file

    broken = tmp_path / "broken"
    broken.mkdir()
    for file in checkpoint.iterdir():
        (broken / file.name).write_bytes(file.read_bytes())
    shard = sorted(broken.glob("*.safetensors"))[0]
    tensors = load_file(shard)
    gone = sorted(name for name in tensors if name.endswith("weight"))[0]
    save_file({name: tensor for name, tensor in tensors.items() if name != gone}, shard, {"format": "pt"})
    process = serve(tmp_path / "runs", "--model", str(broken))
    output, _ = process.communicate(timeout=START_LIMIT_S)
    assert process.returncode == 4
    assert gone in output
    assert not list((tmp_path / "runs").rglob("server.log"))
