"""`penny-bench abba` with a small server script on the mock."""

import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import typer

from penny_bench import abba
from penny_bench.abba.process import Process
from penny_bench.compare import Settings, compare_restarts, read_side
from penny_bench.errors import BenchError

SERVER = """
import asyncio, os, sys
from penny_bench.mock import MockServer, token_script

port, interval, mode, starts = int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4]
with open(starts, "a") as file:
    file.write(f"{os.getpid()} {os.environ.get('SETTING')}\\n")
number = sum(1 for line in open(starts))

def answer(count, body):
    if mode == "dies" and count == 20:
        os._exit(7)
    if mode == "hangs" and number == 2 and count >= 8:
        return token_script(tokens=4, interval=3600.0)
    pause = interval * (1 + number / 50)
    return token_script(tokens=body["max_tokens"], per_chunk=4, interval=pause, usage="running")

async def serve():
    async with MockServer(answer, port=port).start():
        print("serving", flush=True)
        await asyncio.Event().wait()

try:
    asyncio.run(serve())
except KeyboardInterrupt:
    sys.exit(0)
"""

STUBBORN = """
import os, signal, sys, time
os.fork()
signal.signal(signal.SIGINT, signal.SIG_IGN)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
os.write(1, b"%d\\n" % os.getpid())  # in one piece: an unbuffered print writes the line's end by itself
time.sleep(3600)
"""

DECODE = "decode --concurrency 1 --tokens 16 --runs 1 --warmups 0"
PROGRAM = [
    sys.executable,
    "-c",
    "import typer; from penny_bench.abba import abba; from penny_bench.cli import app, main; "
    "'abba' in [c.name or c.callback.__name__ for c in app.registered_commands] or app.command()(abba); main()",
]


def lives(pid: int) -> bool:
    """Whether a process has not ended."""
    stat = Path(f"/proc/{pid}/stat")
    return stat.exists() and stat.read_text().rpartition(")")[2].split()[0] != "Z"


class World:
    """A folder with a server script and a plan file, and the command in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.starts = folder / "starts.txt"
        self.server = folder / "server.py"
        self.server.write_text(SERVER)
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]

    def plan(
        self,
        head: str = "",
        mode: str = "fine",
        measures: dict[str, str] | None = None,
        b: float = 0.01,
        b_words: list[str] | None = None,
    ) -> abba.AbbaPlan:
        """A new setting B that takes `b` seconds for 4 tokens where A takes 0.005; or another command for it."""
        lines = [f'url = "http://127.0.0.1:{self.port}"', "restarts = 2", "stop_timeout = 1.0", head]
        for side, interval in (("a", 0.005), ("b", b)):
            words = [sys.executable, str(self.server), str(self.port), str(interval), mode, str(self.starts)]
            words = b_words if b_words and side == "b" else words
            command = json.dumps(words if side == "a" else shlex.join(words))
            lines += [f"[{side}]", f'name = "setting {side}"', f"command = {command}"]
            lines += [f'env = {{ SETTING = "{side}", API_KEY = "sesame" }}']
        for name, command in (measures or {"short": DECODE}).items():
            lines += ["[[measure]]", f'name = "{name}"', f'command = "{command}"']
        (self.folder / "p.toml").write_text("\n".join(lines))
        return abba.read_plan(self.folder / "p.toml")

    def go(self, plan: abba.AbbaPlan) -> list[str]:
        """Run a plan in this process; what was told."""
        told: list[str] = []
        with abba.Interrupts() as interrupts:
            abba.run_plan(
                plan, abba.Record(self.folder / "out", plan), interrupts, lambda text: None, told.append
            )
        return told

    def start(self, *options: str) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [*PROGRAM, "abba", "p.toml", "--out", "out", *options],
            cwd=self.folder,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "COLUMNS": "140"},
        )

    def run(self, *options: str) -> tuple[int, str, str]:
        child = self.start(*options)
        shown, errors = child.communicate(timeout=120)
        assert "Traceback" not in errors
        return child.returncode, shown, errors

    def started(self) -> list[str]:
        """The settings in the order of their starts."""
        return [line.split()[1] for line in self.starts.read_text().splitlines()]

    def alive(self) -> list[int]:
        """Servers that still run."""
        found = []
        for pid in [int(line.split()[0]) for line in self.starts.read_text().splitlines()]:
            if lives(pid):
                found.append(pid)
        return found

    def read(self, name: str) -> Any:
        return json.loads((self.folder / "out" / name).read_text())


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    made = World(tmp_path)
    yield made
    if made.starts.exists():
        assert made.alive() == []


def test_from_start_to_verdict(world: World) -> None:
    world.plan(
        'cv = 0.02\nmetrics = ["aggregate"]\nfloor = { 1 = 1.0 }', measures={"short": DECODE, "again": DECODE}
    )
    status, shown, errors = world.run()
    assert status in (1, 3), errors  # two pairs can hardly tell; the change below is what is known
    assert world.started() == ["a", "b", "b", "a"]
    # Said before: the order, what is run, what can be detected; the key is not shown.
    assert "4 starts in this order: A B B A" in shown
    assert f"SETTING=a {shlex.quote(sys.executable)} {world.server} {world.port} 0.005 fine" in shown
    assert f"penny-bench {DECODE} --url ... --json again.json" in shown
    assert "With a spread of 2 % between restarts, 2 a side detect" in shown
    assert "sesame" not in shown + errors
    for step in ("a/01", "b/01", "b/02", "a/02"):
        assert f"{step} measured in" in errors
        assert world.read(f"{step}/short.json")["schema"] == "penny-bench/decode/1"
        assert "serving" in (world.folder / "out" / step / "server.log").read_text()
        assert "Decode, mock" in (world.folder / "out" / step / "again.txt").read_text()
    # 10 ms against 5 ms for 4 tokens, with the server's own change from start to start on top.
    made = world.read("compare.json")
    assert (made["exit_status"], made["names"]) == (status, {"A": "setting a", "B": "setting b"})
    assert [row["workload"] for row in made["rows"]] == ["decode (short)", "decode (again)"]
    assert all(-0.75 < row["change"] < -0.2 for row in made["rows"])
    assert made["sentence"] in " ".join(shown.split())
    assert "A: setting a" in (world.folder / "out" / "compare.md").read_text()
    # compare finds the same in the folders.
    out = world.folder / "out"
    again = compare_restarts(
        read_side(str(out / "a")), read_side(str(out / "b")), Settings(metrics=("aggregate",), paired=True)
    )
    assert sorted(row.change or 0 for row in again.rows) == sorted(row["change"] for row in made["rows"])
    kept = world.read("abba.json")
    assert [step["step"] for step in kept["steps"]] == ["a/01", "b/01", "b/02", "a/02"]
    assert "sesame" not in json.dumps(kept)
    assert str(world.folder) not in json.dumps([kept, made])
    # Everything is there, so no server is started and the same is said again.
    again_status, shown, errors = world.run()
    assert again_status == status
    assert "4 of 4 starts are finished already" in errors
    assert len(world.started()) == 4


def test_ctrl_c_ends_the_server_and_the_same_command_goes_on(world: World) -> None:
    world.plan(mode="hangs", measures={"short": DECODE})
    child = world.start()
    log = world.folder / "out" / "running" / "short.txt"
    while not ((world.folder / "out" / "a" / "01").exists() and log.exists()):
        assert child.poll() is None
        time.sleep(0.05)
    time.sleep(1.5)
    child.send_signal(signal.SIGINT)
    _, errors = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "Interrupted; the server was ended. 3 of 4 starts are left: run the same command" in errors
    assert world.alive() == []
    assert not (world.folder / "out" / "b").exists()
    before = (world.folder / "out" / "a" / "01" / "short.json").read_bytes()
    status, _, errors = world.run()
    assert status in (1, 3), errors
    assert "1 of 4 starts are finished already" in errors
    assert world.started() == ["a", "b", "b", "b", "a"]
    assert (world.folder / "out" / "a" / "01" / "short.json").read_bytes() == before
    assert not (world.folder / "out" / "running").exists()


def test_a_server_that_dies_at_its_start_and_a_plan_that_changed(world: World) -> None:
    plan = world.plan(b_words=["sh", "-c", "echo no memory for the weights; exit 3"])
    with pytest.raises(BenchError) as caught:
        world.go(plan)
    assert "The server of B ended with status 3 before it answered" in str(caught.value)
    assert "Its last lines:\n  no memory for the weights" in str(caught.value)
    assert world.started() == ["a"]
    out = world.folder / "out"
    with pytest.raises(BenchError, match=r"The plan has changed in b since .* was begun"):
        abba.Record(out, world.plan(b_words=["sh", "-c", "exit 3"]))
    with pytest.raises(BenchError, match="The plan has changed in measures, settings since"):
        abba.Record(out, replace(plan, measures=(), settings=Settings(margin=0.1)))
    # What is neither measured nor concluded from may change, and so may a secret.
    env = (("API_KEY", "pepper"), ("SETTING", "a"))
    record = abba.Record(out, replace(plan, cv=0.1, pause=1.0, a=replace(plan.a, env=env)))
    assert [record.finished(step) for step in abba.steps(2)] == [True, False, False, False]


def test_a_server_that_dies_while_it_is_measured(world: World) -> None:
    with pytest.raises(BenchError) as caught:
        world.go(world.plan(mode="dies", measures={"short": "decode --concurrency 1 --tokens 16 --runs 30"}))
    # Which of the two is seen first is chance: the server gone, or the measurement that failed for it.
    assert "of a/01 ended with status" in str(caught.value)
    assert not (world.folder / "out" / "a").exists()


def test_processes_that_do_not_heed_are_killed_with_their_children(tmp_path: Path) -> None:
    with abba.Interrupts() as interrupts:
        process = Process([sys.executable, "-c", STUBBORN], tmp_path / "log")
        while len(pids := [int(line) for line in process.log.read_text().split()]) < 2:
            time.sleep(0.05)
        assert process.status is None
        begin = time.monotonic()
        process.stop(0.5, interrupts)
        assert not any(lives(pid) for pid in pids)
        assert time.monotonic() - begin >= 1.0  # SIGINT and SIGTERM had their time
        assert process.status == -signal.SIGKILL


def test_processes_are_asked_before_they_are_killed(tmp_path: Path) -> None:
    with abba.Interrupts() as interrupts:
        process = Process(
            ["sh", "-c", "trap 'echo asked; exit 5' INT; echo up; while :; do sleep 0.05; done"],
            tmp_path / "log",
        )
        while "up" not in process.log.read_text():
            time.sleep(0.05)
        process.stop(20.0, interrupts)
        assert (process.status, process.log.read_text().split()) == (5, ["up", "asked"])
    with pytest.raises(BenchError, match="Could not start no-such-program: No such file"):
        Process(["no-such-program"], tmp_path / "log")


def test_another_server_at_the_address_is_refused(world: World) -> None:
    plan = world.plan()
    with (
        socket.create_server(("127.0.0.1", world.port)),
        pytest.raises(BenchError, match=f"Something answers at http://127.0.0.1:{world.port} already"),
    ):
        world.go(plan)
    assert not world.starts.exists()


def test_measurements_that_fail_are_not_kept(world: World) -> None:
    with pytest.raises(BenchError) as caught:
        world.go(world.plan(measures={"short": "decode --concurrency one"}))
    assert "short of a/01 ended with status 2, so the restart does not count" in str(caught.value)
    assert "  penny-bench: --concurrency is 'one'" in str(caught.value)
    assert not (world.folder / "out" / "a").exists()


def test_a_measurement_that_takes_too_long(world: World) -> None:
    long = f'{DECODE} --tokens 100000"\ntimeout = 1.0\naccept = [0, 1]#'
    with pytest.raises(BenchError, match="The measurement long of a/01 took over 1 s"):
        world.go(world.plan(measures={"long": long}))


def test_a_server_that_is_never_ready(world: World) -> None:
    plan = world.plan("ready_timeout = 0.5")
    plan = replace(plan, a=replace(plan.a, command=("sleep", "3600")))
    with pytest.raises(BenchError, match=r"did not answer at .*/health within 0\.5 s; .* It wrote nothing"):
        world.go(plan)


def test_finished_restarts_that_cannot_be_compared_are_refused_before_another_start(world: World) -> None:
    median = {"median": 1.0, "minimum": 16.0}
    row = dict.fromkeys(("aggregate", "stream", "whole", "ttft", "prompt_tokens", "output_tokens"), median)
    plan = world.plan()
    for side, hour, failures in (("a", 1, {}), ("b", 2, {"HTTP 503": 2})):
        document = {
            "schema": "penny-bench/decode/1",
            "started": f"2026-01-01T{hour:02}:00:00+00:00",
            "client": {},
            "server": {"model": "m", "extensions": True},
            "plan": {"tokens": 16, "prompt_tokens": 100, "runs": 1},
            "summary": [{"concurrency": 1, **row, "failures": failures}],
            "groups": [],
        }
        record = abba.Record(world.folder / "out", plan)
        (record.begin() / "short.json").write_text(json.dumps(document))
        record.finish(abba.Step(side, 1), datetime.now(UTC), 1.0)  # type: ignore[arg-type]
    with pytest.raises(BenchError, match=r"cannot be compared\. .*b/01/short\.json, C1: 2 failed"):
        world.go(plan)
    assert not world.starts.exists()


def test_dry_run_starts_nothing(world: World) -> None:
    world.plan("cv = 0.02\neffect = 0.001")
    status, shown, _ = world.run("--dry-run")
    assert status == 0
    assert "That is more than the 0.1 % that shall be found" in shown
    assert not world.starts.exists()
    assert not (world.folder / "out").exists()


def test_a_full_disk(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    real = Path.open

    def full(self: Path, *more: Any, **named: Any) -> Any:
        if self.name == "short.txt":
            raise OSError(28, "No space left on device")
        return real(self, *more, **named)

    monkeypatch.setattr(Path, "open", full)
    with pytest.raises(
        BenchError, match=r"Could not write below .*out: No space left .* run the same command again"
    ):
        world.go(world.plan())
    assert world.started() == ["a"]


def test_foreign_and_garbled_folders(world: World) -> None:
    plan = world.plan()
    out = world.folder / "out"
    out.mkdir()
    (out / "thesis.txt").write_text("x")
    with pytest.raises(BenchError, match=r"holds thesis\.txt and no comparison to go on with"):
        abba.Record(out, plan)
    (out / "abba.json").write_text("{")
    with pytest.raises(BenchError, match=r"abba\.json cannot be read"):
        abba.Record(out, plan)
    with pytest.raises(BenchError, match="Could not make the folder"):
        abba.Record(out / "thesis.txt" / "x", plan)


def test_two_signals_are_counted_and_heeded() -> None:
    before = signal.getsignal(signal.SIGINT)
    with abba.Interrupts() as interrupts:
        interrupts.check()
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.05)
        assert interrupts.count == 2
        with pytest.raises(KeyboardInterrupt):
            interrupts.sleep(10)
    assert signal.getsignal(signal.SIGINT) is before


def test_the_command_is_a_typer_function() -> None:
    app = typer.Typer()
    app.command()(abba.abba)
    assert app.registered_commands[0].callback is abba.abba
