"""The supervisor with a fake server process: starts, failures, interruptions, and that nothing is left."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from penny_server.errors import ExitCode, PennyError
from penny_server.serving.diagnose import explain
from penny_server.serving.phases import Event, EventTail, Progress, describe
from penny_server.serving.port import check_port

FAKES = Path(__file__).parent / "fakes"
PATIENCE_S = 30.0


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@dataclass
class Run:
    """One ``penny serve`` in a subprocess, output in files."""

    folder: Path
    mode: str
    options: tuple[str, ...] = ()
    port: int = field(default_factory=free_port)

    def start(self) -> subprocess.Popen[bytes]:
        env = {
            **os.environ,
            "FAKE_MODE": self.mode,
            "FAKE_PIDS": str(self.folder / "pids"),
            "PYTHONPATH": str(FAKES),
            "CUDA_VISIBLE_DEVICES": "",
        }
        command = [sys.executable, str(FAKES / "drive.py"), "serve", "tiny-27b", "--port", str(self.port)]
        command += ["--log-dir", str(self.folder / "runs"), *self.options]
        with open(self.folder / "out", "wb") as out, open(self.folder / "err", "wb") as err:
            self.process = subprocess.Popen(
                command, env=env, stdout=out, stderr=err, stdin=subprocess.DEVNULL
            )
        return self.process

    @property
    def out(self) -> str:
        return (self.folder / "out").read_text()

    @property
    def err(self) -> str:
        return (self.folder / "err").read_text()

    def wait_for(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while not done():
            assert time.monotonic() < deadline, self.out + self.err
            assert self.process.poll() is None, self.out + self.err
            time.sleep(0.05)

    def end(self) -> int:
        return self.process.wait(PATIENCE_S)

    def pids(self) -> list[int]:
        file = self.folder / "pids"
        return [int(line) for line in file.read_text().split()] if file.exists() else []

    def living(self) -> list[int]:
        found = []
        for pid in self.pids():
            with contextlib.suppress(psutil.NoSuchProcess):
                if psutil.Process(pid).status() != psutil.STATUS_ZOMBIE:
                    found.append(pid)
        return found


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Run]]:
    runs: list[Run] = []

    def begin(mode: str, *options: str) -> Run:
        run = Run(tmp_path, mode, options)
        run.start()
        runs.append(run)
        return run

    yield begin
    for run in runs:
        if run.process.poll() is None:
            run.process.kill()
        for pid in run.living():
            os.kill(pid, signal.SIGKILL)


def test_ready_then_ctrl_c(start: Callable[..., Run]) -> None:
    run = start("ready")
    run.wait_for(lambda: "Ready in" in run.out)
    assert f"http://127.0.0.1:{run.port} serves tiny-27b" in run.out
    assert f"curl http://127.0.0.1:{run.port}/v1/chat/completions" in run.out
    assert f"penny chat --url http://127.0.0.1:{run.port}" in run.out
    assert "FakeForCausalLM, 3.9 M parameters" in run.out
    assert run.err == "warning: the tokenizer is odd.\n"
    assert "7.6 MB" in run.out
    run.process.send_signal(signal.SIGINT)
    assert run.end() == 0
    assert run.pids()
    assert run.living() == []


def test_run_folder_is_private_and_says_what_was_started(start: Callable[..., Run]) -> None:
    run = start("ready")
    run.wait_for(lambda: "Ready in" in run.out)
    run.process.send_signal(signal.SIGTERM)
    assert run.end() == 0
    (folder,) = (run.folder / "runs").iterdir()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((folder / "server.log").stat().st_mode) == 0o600
    assert stat.S_IMODE((folder / "events.jsonl").stat().st_mode) == 0o600
    assert (folder / "server.log").read_text() == "fake server log\n"
    assert f"--port {run.port}" in " ".join(json.loads((folder / "launch.json").read_text())["args"])
    assert str(folder / "server.log") in run.out


def test_json_lines(start: Callable[..., Run]) -> None:
    run = start("ready", "--json")
    run.wait_for(lambda: '"ready", "url"' in run.out)
    run.process.send_signal(signal.SIGINT)
    assert run.end() == 0
    events = [json.loads(line) for line in run.out.splitlines()]
    told = [e["event"] for e in events if e["event"] not in ("phase", "progress")]
    assert told == ["start", "backends", "ready", "stopping", "stopped"]
    done = [e["phase"] for e in events if e["event"] == "phase" and e["state"] == "done"]
    assert done == ["identity", "imports", "weights", "pools", "ready"]
    assert {e["phase"] for e in events if e.get("state") == "skipped"} == {"graphs", "warm-up"}


def test_crash_while_starting(start: Callable[..., Run]) -> None:
    run = start("crash")
    assert run.end() == ExitCode.SERVER
    assert "exit code 1 while starting. Its last error: RuntimeError: boom" in run.err
    assert "fake server log" in run.out
    assert "server.log" in run.err
    assert "Traceback" not in run.err
    assert run.living() == []


def test_pool_that_does_not_fit(start: Callable[..., Run]) -> None:
    run = start("pool", "--json")
    assert run.end() == ExitCode.SERVER
    failed = json.loads(run.out.splitlines()[-1])
    assert failed["event"] == "failed"
    assert failed["exit_code"] == 5
    assert failed["message"] == "The KV pool does not fit into the memory that is left after the weights."
    assert "mem_fraction_static" in failed["hint"]


def test_message_and_code_of_the_server_itself(start: Callable[..., Run]) -> None:
    run = start("fail-event")
    assert run.end() == ExitCode.ENVIRONMENT
    assert "error: Seam x does not fit: expected digest a, found b." in run.err


def test_a_failed_assertion_stops_the_server(start: Callable[..., Run]) -> None:
    run = start("small-pool")
    assert run.end() == ExitCode.SERVER
    said = " ".join(run.err.split())
    assert "error: The server is not what the profile tiny-27b promises, so it was stopped." in said
    assert "[assert] pool_tokens: the KV pool holds 8,192 tokens, and at least 16,384 are asserted." in said
    assert said.count("[assert]") == 1
    assert "Ready in" not in run.out
    assert run.pids()
    assert run.living() == []


def test_an_assertion_about_what_a_person_changed_is_lifted_and_noted(start: Callable[..., Run]) -> None:
    run = start("small-pool", "--set", "max_total_tokens=8192")
    run.wait_for(lambda: "Ready in" in run.out)
    (listed,) = json.loads(penny(run, "status", "--json").stdout)
    assert (
        "The assertion pool_tokens of the profile is not held, because max_total_tokens was changed."
        in listed["notes"]
    )
    run.process.send_signal(signal.SIGINT)
    assert run.end() == 0


def test_failed_server_that_does_not_end(start: Callable[..., Run]) -> None:
    run = start("fail-and-hang")
    assert run.end() == ExitCode.SERVER
    assert "The scheduler is gone." in run.err
    assert run.living() == []


def test_killed_server(start: Callable[..., Run]) -> None:
    run = start("killed")
    assert run.end() == ExitCode.SERVER
    assert "was ended by SIGKILL (the system may have run out of memory)" in run.err


def test_server_that_ends_after_it_was_ready(start: Callable[..., Run]) -> None:
    run = start("ends-later")
    assert run.end() == ExitCode.SERVER
    assert "Ready in" in run.out
    assert "The server ended by itself after it was ready." in run.err


def test_ctrl_c_during_the_start(start: Callable[..., Run]) -> None:
    run = start("slow")
    run.wait_for(lambda: len(run.pids()) == 4)
    assert len(run.living()) == 4
    run.process.send_signal(signal.SIGINT)
    assert run.end() == ExitCode.INTERRUPTED
    assert run.living() == []
    assert "Traceback" not in run.out + run.err


def test_nothing_left_of_grandchildren(start: Callable[..., Run]) -> None:
    run = start("grandchildren")
    run.wait_for(lambda: "Ready in" in run.out)
    assert len(run.living()) == 4
    run.process.send_signal(signal.SIGINT)
    assert run.end() == 0
    assert run.living() == []


def test_second_ctrl_c_does_not_wait(start: Callable[..., Run]) -> None:
    run = start("stubborn", "--grace", "3600")
    run.wait_for(lambda: "Ready in" in run.out)
    run.process.send_signal(signal.SIGINT)
    run.wait_for(lambda: "stopping the server" in run.out)
    assert run.living() == run.pids()
    run.process.send_signal(signal.SIGINT)
    assert run.end() == 0
    assert run.living() == []


def test_server_that_ignores_the_request_to_end(start: Callable[..., Run]) -> None:
    run = start("stubborn", "--grace", "0.5")
    run.wait_for(lambda: "Ready in" in run.out)
    run.process.send_signal(signal.SIGTERM)
    assert run.end() == 0
    assert run.living() == []


@pytest.mark.parametrize(("mode", "processes"), [("stubborn", 1), ("slow", 4)])
def test_server_ends_with_its_supervisor(start: Callable[..., Run], mode: str, processes: int) -> None:
    run = start(mode)
    run.wait_for(lambda: len(run.living()) == processes)
    run.process.kill()
    deadline = time.monotonic() + PATIENCE_S
    while run.living() and time.monotonic() < deadline:
        time.sleep(0.05)
    assert run.living() == []


def test_port_in_use(start: Callable[..., Run], tmp_path: Path) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        run = Run(tmp_path, "ready", (), holder.getsockname()[1])
        run.start()
        assert run.end() == ExitCode.ENVIRONMENT
    name = psutil.Process().name()
    expected = f"error: Port {run.port} on 127.0.0.1 is in use by {name} (process {os.getpid()})."
    assert expected in " ".join(run.err.split())
    assert "--port" in run.err
    assert run.pids() == []
    assert not (tmp_path / "runs").exists()


def test_address_of_another_machine() -> None:
    with pytest.raises(PennyError, match=r"cannot listen on 192\.0\.2\.1:8001") as caught:
        check_port("192.0.2.1", 8001)
    assert caught.value.exit_code == 3
    assert "--host" in caught.value.hint


def test_free_port_is_accepted() -> None:
    check_port("127.0.0.1", free_port())
    check_port("0.0.0.0", free_port())


def test_run_folder_that_cannot_be_made(start: Callable[..., Run], tmp_path: Path) -> None:
    (tmp_path / "runs").write_text("a file")
    run = start("ready")
    assert run.end() == ExitCode.ENVIRONMENT
    assert "cannot be made" in run.err
    assert "--log-dir" in run.err
    assert run.pids() == []


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        (
            "sglang serve: error: argument --attention-backend: invalid choice: 'x' (choose from 'triton')",
            2,
            "SGLang does not take a setting: argument --attention-backend: invalid choice",
        ),
        ("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2 GiB", 5, "ran out of memory"),
        ("OSError: [Errno 98] Address already in use", 3, "Another process took the port"),
        (
            "ValueError: Model architectures ['Foo'] are not supported for now.",
            4,
            "no model class for .*'Foo'",
        ),
        (
            "ValueError: Loaded weights leave no GPU memory for the KV cache under --mem-fraction-static.",
            5,
            "The KV pool does not fit",
        ),
        (
            "KeyError: 'x'\nReceived sigquit from a child process. It usually means the child failed.",
            5,
            "A process of the server failed while starting. Its last error: KeyError: 'x'",
        ),
        ("nothing that is known", 5, "ended with exit code 1 while starting"),
    ],
)
def test_explains_the_end_of_a_log(tmp_path: Path, text: str, code: int, message: str) -> None:
    log = tmp_path / "server.log"
    log.write_text(f"some line\n{text}\nlast line\n")
    error = explain(1, log, None)
    assert error.exit_code == code
    with pytest.raises(PennyError, match=message):
        raise error


def test_tail_waits_for_whole_lines(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    tail = EventTail(file)
    assert list(tail.new()) == []
    line = '{"t": 5.0, "pid": 1, "phase": "weights", "state": "begin", "detail": {}}\n'
    file.write_text(line + line[:20])
    assert list(tail.new()) == [Event(5.0, "weights", "begin", {})]
    assert list(tail.new()) == []
    file.write_text(line + line)
    assert list(tail.new()) == [Event(5.0, "weights", "begin", {})]


def test_phases_and_their_times() -> None:
    progress = Progress(started=100.0)
    for event in (
        Event(101.0, "imports", "begin", {}),
        Event(111.0, "weights", "begin", {}),
        Event(112.0, "weights", "progress", {"fraction": 0.25}),
        Event(115.0, "weights", "end", {"bytes": 7_600_000}),
        Event(116.0, "warm-up", "begin", {}),
    ):
        progress.apply(event)
    states = {phase.name: (phase.state, phase.seconds(118.0)) for phase in progress.phases}
    assert states == {
        "identity": ("done", 1.0),
        "imports": ("done", 10.0),
        "weights": ("done", 4.0),
        "pools": ("skipped", 0.0),
        "graphs": ("skipped", 0.0),
        "warm-up": ("running", 2.0),
        "ready": ("waiting", 0.0),
    }
    assert not progress.announced


def test_details_for_people() -> None:
    assert describe({"bytes": 7_640_000}) == "7.6 MB"
    assert describe({"bytes": 28_000_000_000}) == "28.00 GB"
    assert describe({"tokens": 16384, "requests": 8}) == "16,384 tokens, 8 requests"
    assert describe({"bytes": 1_900_000, "of": 7_600_000}) == "1.9 MB of 7.6 MB"
    assert describe({"draft": False}) == ""


def penny(run: Run, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(FAKES / "drive.py"), *arguments, "--log-dir", str(run.folder / "runs")]
    return subprocess.run(command, capture_output=True, text=True, timeout=PATIENCE_S, check=False)


def test_status_and_stop(start: Callable[..., Run]) -> None:
    run = start("ready")
    run.wait_for(lambda: "Ready in" in run.out)
    (listed,) = json.loads(penny(run, "status", "--json").stdout)
    assert (listed["profile"], listed["state"], listed["pid"]) == ("tiny-27b", "ready", run.process.pid)
    assert listed["live"]["healthy"]
    assert listed["started"] < listed["ready"] <= time.time()
    shown = penny(run, "status").stdout
    assert "ready" in shown
    assert f"http://127.0.0.1:{run.port}" in shown
    wrong = penny(run, "stop", "other")
    assert wrong.returncode == ExitCode.ENVIRONMENT
    assert "No running server is called 'other'." in wrong.stderr
    assert f"tiny-27b on http://127.0.0.1:{run.port}" in wrong.stderr
    stopped = penny(run, "stop", str(run.port))
    assert stopped.returncode == 0
    assert "nothing is left running" in stopped.stdout
    assert run.end() == 0
    assert run.living() == []
    none = penny(run, "status")
    assert none.returncode == ExitCode.ENVIRONMENT
    assert "No server runs" in none.stdout
    (ended,) = json.loads(penny(run, "status", "--all", "--json").stdout)
    assert ended["state"] == "stopped"
    assert ended["live"] is None


def test_a_killed_command_is_listed_as_lost(start: Callable[..., Run]) -> None:
    run = start("ready")
    run.wait_for(lambda: "Ready in" in run.out)
    run.process.kill()
    run.process.wait()
    assert json.loads(penny(run, "status", "--json").stdout) == []
    (lost,) = json.loads(penny(run, "status", "--all", "--json").stdout)
    assert lost["state"] == "lost"


def test_a_failed_start_is_listed_as_failed(start: Callable[..., Run]) -> None:
    run = start("crash")
    run.end()
    (failed,) = json.loads(penny(run, "status", "--all", "--json").stdout)
    assert failed["state"] == "failed"
    assert failed["ready"] is None


def test_a_checkpoint_that_cannot_be_read_is_a_failed_start(start: Callable[..., Run]) -> None:
    run = start("unreadable")
    assert run.end() == ExitCode.CHECKPOINT
    assert "model.safetensors cannot be read (Input/output error)." in run.err
    (failed,) = json.loads(penny(run, "status", "--all", "--json").stdout)
    assert failed["state"] == "failed"
