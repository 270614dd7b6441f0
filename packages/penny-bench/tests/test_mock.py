"""The mock: its timelines, its faults, its command, and the log that clients are judged by."""

import asyncio
import json
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from math import inf
from pathlib import Path
from typing import Any

import httpx
import pytest

from penny_bench.errors import BenchError
from penny_bench.mock import (
    Cut,
    MockServer,
    Refusal,
    Served,
    Step,
    chunk,
    exact_loop,
    read_log,
    running,
    token_script,
    write_log,
)
from penny_bench.mock import loop as loop_module
from penny_bench.mock.agenda import Agenda
from penny_bench.mock.faults import parse_faults
from penny_bench.mock.program import Program

PROGRAM = [sys.executable, "-m", "penny_bench.mock"]


def post(url: str, body: dict[str, Any] | None = None, timeout: float = 30) -> httpx.Response:
    with httpx.Client(trust_env=False, timeout=timeout) as client:
        return client.post(f"{url}/v1/chat/completions", json=body or {})


# ---- timelines


def test_the_agenda_keeps_times_and_order() -> None:
    done: list[tuple[str, float]] = []

    async def run() -> None:
        agenda, now = Agenda(), time.perf_counter()
        agenda.add(now + 0.05, lambda t: done.append(("late", t - now)))
        agenda.add(now + 0.02, lambda t: done.append(("early", t - now)))
        agenda.add(
            now - 1.0, lambda t: agenda.add(now + 0.03, lambda t: done.append(("added by another", t - now)))
        )
        agenda.add(inf, lambda t: done.append(("never", t)))
        for number in range(200):
            agenda.add(now + 0.04, lambda t, number=number: done.append((str(number), t - now)))
        await asyncio.sleep(0.2)
        agenda.add(time.perf_counter() + 0.01, lambda t: done.append(("closed", t)))
        agenda.close()
        await asyncio.sleep(0.05)

    with asyncio.Runner(loop_factory=exact_loop) as runner:
        runner.run(run())
    assert [name for name, _ in done] == ["early", "added by another", *map(str, range(200)), "late"]
    assert [t for _, t in done] == pytest.approx([0.02, 0.03, *[0.04] * 200, 0.05])


def test_the_exact_loop_waits_in_microseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Epoll would make a whole millisecond of 0.2."""
    waits: list[float] = []
    select = loop_module.select.select

    def watched(*arguments: Any) -> Any:
        waits.append(arguments[3])
        return select(*arguments)

    monkeypatch.setattr(loop_module.select, "select", watched)
    with asyncio.Runner(loop_factory=exact_loop) as runner:
        runner.run(asyncio.sleep(2e-4))
    assert waits
    assert all(0 < wait <= 2e-4 for wait in waits)


def test_steps_are_due_by_the_programme_and_not_by_when_the_last_was_written() -> None:
    script = token_script(tokens=20, first=0.03, interval=0.005)
    with running(lambda number, body: script) as mock:
        assert post(mock.url).status_code == 200
        [served] = mock.served
    times = [t for t, _ in served.events()]
    assert len(times) == 20
    for number, t in enumerate(times):
        due = served.received + 0.03 + 0.005 * number
        assert t >= due
    assert served.late == pytest.approx(
        max(t - (served.received + 0.03 + 0.005 * i) for i, t in enumerate(times)), abs=5e-3
    )
    assert served.ended is not None
    assert all(a <= b for a, b in zip(served.sent, served.after, strict=True))


def test_reasoning_comes_first_in_whole_events() -> None:
    script = token_script(tokens=10, per_chunk=4, reasoning=5)
    deltas = [step.data["choices"][0]["delta"] for step in script if isinstance(step, Step) and step.tokens]
    assert [list(delta) for delta in deltas] == [["reasoning_content"], ["reasoning_content"], ["content"]]
    [usage] = [
        s.data["usage"]
        for s in script
        if isinstance(s, Step) and isinstance(s.data, dict) and "usage" in s.data
    ]
    assert usage["completion_tokens_details"] == {"reasoning_tokens": 8}
    assert [step.tokens for step in script if isinstance(step, Step) and step.tokens] == [4, 4, 2]


def test_pages_unknown_paths_and_what_is_no_request() -> None:
    with running(lambda number, body: [], {"/server_info": {"version": "9"}}) as mock:
        with httpx.Client(trust_env=False, base_url=mock.url) as client:
            assert client.get("/v1/models").json() == {"data": [{"id": "mock"}]}
            assert client.get("/server_info").json() == {"version": "9"}
            assert client.get("/v1/chat/completions").status_code == 404
            assert (
                client.post("/v1/completions", json={}).json()["error"]["message"]
                == "There is no POST /v1/completions."
            )
            assert client.post("/v1/chat/completions", content=b"{").status_code == 400
        host, port = mock.url.removeprefix("http://").split(":")
        with socket.create_connection((host, int(port)), timeout=10) as raw:
            raw.sendall(b"\x16\x03\x01 TLS?\r\n\r\n")
            assert raw.recv(100).startswith(b"HTTP/1.1 400")
    assert mock.bodies == []


def test_a_taken_port() -> None:
    async def run(port: int) -> None:
        async with MockServer(lambda number, body: [], port=port).start():
            raise AssertionError("it started")

    with (
        socket.create_server(("127.0.0.1", 0)) as taken,
        pytest.raises(BenchError, match="cannot listen on 127"),
    ):
        asyncio.run(run(taken.getsockname()[1]))


# ---- programme and faults


def test_the_programme_answers_as_it_is_asked() -> None:
    program = Program(tokens=7, per_chunk=2, first=0.5, interval=0.25, prefill_rate=100.0)

    def usages(body: dict[str, Any]) -> list[dict[str, int]]:
        steps = program(0, body)
        assert isinstance(steps, list)
        return [
            s.data["usage"]
            for s in steps
            if isinstance(s, Step) and isinstance(s.data, dict) and "usage" in s.data
        ]

    steps = program(0, {"messages": [{"role": "user", "content": "x" * 80}]})
    assert isinstance(steps, list)
    # 80 characters are 20 tokens: 0.2 s of prefill before the 0.5 s. 7 tokens are 4 events.
    assert [s.delay for s in steps if isinstance(s, Step) and s.tokens] == pytest.approx(
        [0.7, 0.25, 0.25, 0.25]
    )
    assert usages({}) == []
    assert usages({"stream_options": {"include_usage": True}}) == [
        {"prompt_tokens": 1, "completion_tokens": 7, "total_tokens": 8}
    ]
    running_counts = usages({"max_tokens": 3, "stream_options": {"continuous_usage_stats": True}})
    assert [usage["completion_tokens"] for usage in running_counts] == [2, 3, 3, 3]
    assert len(usages({"max_completion_tokens": 1, "stream_options": {"include_usage": True}})) == 1
    assert program(1, {}) is program(2, {})  # made once


@pytest.mark.parametrize(
    "settings",
    [
        {"tokens": 0},
        {"per_chunk": 0},
        {"first": -1.0},
        {"interval": inf},
        {"prefill_rate": 0.0},
        {"reasoning": -1},
    ],
)
def test_programmes_that_are_none(settings: dict[str, Any]) -> None:
    with pytest.raises(BenchError, match=next(iter(settings))):
        Program(**settings)


def test_every_nth_request_has_its_fault() -> None:
    program = Program(faults=parse_faults("429:2,503:3"))
    answers = [program(number, {}) for number in range(6)]
    statuses = [answer.status if isinstance(answer, Refusal) else 200 for answer in answers]
    assert statuses == [200, 429, 503, 429, 200, 429]  # the sixth has both; the first named counts


@pytest.mark.parametrize(
    ("fault", "end"),
    [
        ("cut", Cut()),
        ("stall", Step(inf, b"")),
        ("malformed", Step(0.0, b"data: [DONE]\n\n")),
        ("half_open", Step(inf, b"")),
    ],
)
def test_faults_of_streams(fault: str, end: Step | Cut) -> None:
    steps = Program(tokens=8, faults=parse_faults(f"{fault}:1"))(0, {})
    assert isinstance(steps, list)
    assert steps[-1] == end
    malformed = [
        s
        for s in steps
        if isinstance(s, Step) and isinstance(s.data, bytes) and s.data.startswith(b'data: {"')
    ]
    assert len(malformed) == (fault == "malformed")
    with pytest.raises(json.JSONDecodeError):
        json.loads(malformed[0].data[6:] if malformed else "{")  # type: ignore[arg-type]


def test_no_usage_although_it_is_asked_for() -> None:
    steps = Program(faults=parse_faults("no_usage:1"))(0, {"stream_options": {"include_usage": True}})
    assert isinstance(steps, list)
    assert not any("usage" in s.data for s in steps if isinstance(s, Step) and isinstance(s.data, dict))


@pytest.mark.parametrize("text", ["x:3", "429", "429:0", "429:-1", "429:a", "cut:1.5"])
def test_faults_that_are_none(text: str) -> None:
    with pytest.raises(BenchError, match=r"--faults has the part .*; the forms are 429:10,"):
        parse_faults(text)


# ---- log and command


def test_the_log_is_read_as_it_was_written(tmp_path: Path) -> None:
    one = Served(3, 1.5, 200, [1.5, 1.6], [1.51, 1.61], [0, 4], 0.01, 1, 1.7)
    write_log(tmp_path / "log", [one, Served(4, 2.0, 429)])
    assert list(read_log(tmp_path / "log")) == [one, Served(4, 2.0, 429)]
    assert one.events() == [(1.6, 4)]
    (tmp_path / "other").write_text('{"a": 1}\n')
    for name in ("other", "none"):
        with pytest.raises(BenchError, match="is no log of a mock"):
            list(read_log(tmp_path / name))


@contextmanager
def command(*arguments: str | Path) -> Iterator[str]:
    """`penny-bench mock` as a process, ended with SIGTERM; gives its address."""
    process = subprocess.Popen(
        [*PROGRAM, "--port", "0", *map(str, arguments)], stdout=subprocess.PIPE, text=True
    )
    assert process.stdout
    try:
        yield process.stdout.readline().split()[-1]
    finally:
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0
        process.stdout.close()


def test_the_command_serves_and_leaves_a_log(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    with command("--log", log, "--first", "0.01", "--interval", "0.001", "--faults", "503:2") as url:
        body = {"max_tokens": 3, "stream_options": {"include_usage": True}}
        before = time.perf_counter()
        stream, refused = post(url, body), post(url, body)
        after = time.perf_counter()
    assert stream.text.count("data: ") == 1 + 3 + 1 + 1 + 1  # role, tokens, end, usage, [DONE]
    assert stream.text.endswith("data: [DONE]\n\n")
    assert (refused.status_code, refused.json()["error"]["message"]) == (
        503,
        "Overloaded; this is what the mock was told to say.",
    )
    first, second = read_log(log)
    assert [tokens for _, tokens in first.events()] == [1, 1, 1]
    assert before < first.received < first.sent[0] < first.events()[0][0] < second.received < after
    assert (second.status, second.events()) == (503, [])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--faults", "x"], "--faults has the part 'x'"),
        (["--usage", "always"], "--usage is 'always'; give asked, final, running or none"),
        (["--log", "/no/such/folder/log"], "There is no folder /no/such/folder"),
        (["--interval", "-1"], "interval is -1.0; give at least 0"),
    ],
)
def test_commands_that_are_none(arguments: list[str], words: str) -> None:
    done = subprocess.run([*PROGRAM, *arguments], capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode == 2
    assert words in done.stderr
    assert "Traceback" not in done.stderr


def test_a_mock_that_runs_for_days_keeps_nothing() -> None:
    async def run() -> MockServer:
        async with MockServer(lambda number, body: [Step(0.0, chunk())], keep=False).start() as mock:
            await asyncio.to_thread(post, mock.url)
            return mock

    mock = asyncio.run(run())
    assert (mock.bodies, mock.served) == ([], [])
