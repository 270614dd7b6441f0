"""One float32 server and one transformers reference, shared by all serving tests."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import psutil
import pytest

START_LIMIT_S = 400


def free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


@dataclass(frozen=True)
class Server:
    """A running ``penny serve``: its URL, run directory and supervisor process."""

    url: str
    run_dir: Path
    process: subprocess.Popen[str]

    def post(self, path: str, body: object, **kwargs: object) -> httpx.Response:
        return httpx.post(f"{self.url}{path}", json=body, timeout=120, **kwargs)  # type: ignore[arg-type]

    def generate(self, input_ids: list[int], new_tokens: int, **params: object) -> dict:
        sampling = {"temperature": 0, "max_new_tokens": new_tokens, "ignore_eos": True, **params}
        response = self.post("/generate", {"input_ids": input_ids, "sampling_params": sampling})
        assert response.status_code == 200, response.text
        return response.json()

    def processes(self) -> list[psutil.Process]:
        supervisor = psutil.Process(self.process.pid)
        return [supervisor, *supervisor.children(recursive=True)]


def start(run_root: Path, *options: str, profile: str = "tiny-27b") -> Server:
    """Starts ``penny serve`` and waits for its ready line; raises AssertionError with its output otherwise."""
    port = free_port()
    penny = Path(sys.executable).with_name("penny")
    command = [str(penny), "serve", profile, "--port", str(port), "--json"]
    command += ["--log-dir", str(run_root), *options]
    output = run_root / "supervisor.jsonl"
    with output.open("w") as file:
        process = subprocess.Popen(command, stdout=file, stderr=subprocess.STDOUT, text=True, cwd=run_root)
    deadline = time.monotonic() + START_LIMIT_S
    while time.monotonic() < deadline:
        for line in output.read_text().splitlines():
            if line.startswith("{") and json.loads(line).get("phase") == "ready":
                run_dir = next(p.parent for p in run_root.rglob("server.log"))
                return Server(f"http://127.0.0.1:{port}", run_dir, process)
        if process.poll() is not None:
            break
        time.sleep(0.2)
    process.send_signal(signal.SIGTERM)
    try:
        process.wait(30)
    except subprocess.TimeoutExpired:
        process.kill()  # its guard ends the rest
    raise AssertionError(f"the server did not become ready:\n{output.read_text()}")


def stop(server: Server) -> int:
    """Ends the server as a user does, with Ctrl-C; returns the exit code. Nothing may be left running."""
    children = server.processes()
    server.process.send_signal(signal.SIGINT)
    code = server.process.wait(60)
    left = [p for p in children if p.is_running() and p.status() != psutil.STATUS_ZOMBIE]
    assert not left, f"left running: {left}"
    return code


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    running = start(tmp_path_factory.mktemp("float32"), "--device", "cpu", "--set", "dtype=float32")
    yield running
    assert stop(running) == 0


@pytest.fixture(scope="session", params=["tiny-27b-nextn", "tiny-27b-dflash2"])
def drafting(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """A float32 server for each kind of draft. pytest orders a process's tests by it: each starts once, and ends before
    the next starts."""
    root = tmp_path_factory.mktemp(request.param)
    running = start(root, "--device", "cpu", "--set", "dtype=float32", profile=request.param)
    yield running
    assert stop(running) == 0


@pytest.fixture(scope="session")
def checkpoint() -> Path:
    from penny_models import tiny

    return tiny.path("tiny-27b")


@pytest.fixture(scope="session")
def tokenizer(checkpoint: Path):
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(checkpoint)


@pytest.fixture(scope="session")
def reference(checkpoint: Path):
    """The independent implementation: transformers' own model on the same weights in float32."""
    import torch
    from transformers import Qwen3_5ForConditionalGeneration

    torch.set_num_threads(max(1, (os.cpu_count() or 2) - 1))
    model = Qwen3_5ForConditionalGeneration.from_pretrained(checkpoint, dtype=torch.float32).eval()
    model.generation_config.eos_token_id = None  # every answer goes on to the last token asked for
    return model
