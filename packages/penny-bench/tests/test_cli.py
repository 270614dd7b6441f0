"""The `penny-bench` command, as a user runs it."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from penny_bench import __version__
from penny_bench.cli import main
from penny_bench.mock import Refusal, Script, running, token_script
from penny_bench.text import passages

FIRST = 1 + len(passages())
"""Requests that come before the first measured stream."""


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from penny_bench.cli import main; main()", *map(str, arguments)]
    environment = {**os.environ, "COLUMNS": "160"}
    return subprocess.run(command, capture_output=True, text=True, check=False, env=environment)


def answer(number: int, body: dict[str, Any]) -> Script:
    return token_script(tokens=body["max_tokens"], per_chunk=4, first=0.01, interval=0.005, usage="running")


def test_decode(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    with running(answer) as mock:
        done = run(
            "decode",
            *("--url", mock.url, "--concurrency", "1,4", "--tokens", "32", "--runs", "2"),
            *("--api-key", "sesame", "--json", path),
        )
    assert done.returncode == 0, done.stderr
    assert "Decode, mock" in done.stdout
    read = json.loads(path.read_text())
    assert read["plan"]["concurrency"] == [1, 4]
    assert len(read["groups"]) == 6
    for group in read["groups"]:
        assert [r["output_tokens"] for r in group["records"]] == [32] * group["concurrency"]
        for r in group["records"]:
            start, end = r["arrivals"][0]["t"], r["arrivals"][-1]["t"]
            # A slow reader gets several events at one moment: they are the first arrival together.
            first = max(a["tokens"] for a in r["arrivals"] if a["t"] == start)
            assert first % 4 == 0
            assert (32 - first) / (end - start) in group["rates"]["streams"]
    assert "sesame" not in path.read_text()


def test_failures_are_shown_and_change_the_status() -> None:
    def sometimes(number: int, body: dict[str, Any]) -> Script:
        return Refusal(503, "overloaded") if number == FIRST + 2 + FIRST else answer(number, body)

    settings = ("--concurrency", "2", "--tokens", "8", "--runs", "1", "--warmups", "0")
    with running(sometimes) as mock:
        assert run("decode", "--url", mock.url, *settings).returncode == 0  # two streams
        done = run("decode", "--url", mock.url, *settings)
    assert done.returncode == 1
    assert "2 streams: 1 failed. The server answered with HTTP 503: overloaded" in done.stdout


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--url", "http://127.0.0.1:9"], "No server answers at http://127.0.0.1:9/v1"),
        (["--url", "nonsense"], "'nonsense' is no address of a server"),
        (["--url", "http://127.0.0.1:9", "--concurrency", "one"], "--concurrency is 'one'"),
        (["--url", "http://127.0.0.1:9", "--tokens", "1"], "tokens is 1; give at least 2"),
        (["--url", "http://127.0.0.1:9", "--json", "no/such/x.json"], "There is no folder no/such"),
    ],
)
def test_errors_are_sentences_with_status_2(
    arguments: list[str], words: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["penny-bench", "decode", *arguments])
    with pytest.raises(SystemExit) as caught:
        main()
    assert caught.value.code == 2
    assert capsys.readouterr().err.startswith(f"penny-bench: {words}")


def test_ctrl_c_ends_with_130_and_writes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    with running(
        lambda number, body: token_script(tokens=4, interval=30.0 if number >= FIRST else 0.0)
    ) as mock:
        command = [sys.executable, "-c", "from penny_bench.cli import main; main()"]
        command += ["decode", "--url", mock.url, "--json", str(path)]
        child = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        while len(mock.bodies) <= FIRST:
            assert child.poll() is None
            time.sleep(0.02)
        child.send_signal(signal.SIGINT)
        _, errors = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


def test_missing_usage_is_a_clear_error() -> None:
    with running(lambda number, body: token_script(tokens=4, usage="none")) as mock:
        done = run("decode", "--url", mock.url)
    assert done.returncode == 2
    assert "The stream carried no usage, so its tokens cannot be counted." in done.stderr


def test_version() -> None:
    assert run("--version").stdout == f"penny-bench {__version__}\n"


def test_help_and_usage_errors() -> None:
    shown = run("decode", "--help")
    assert shown.returncode == 0
    assert "url" in shown.stdout
    assert run("decode", "--nonsense").returncode == 2
    missing = run("decode")
    assert missing.returncode == 2
    assert "--url" in missing.stderr
