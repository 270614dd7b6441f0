"""`penny-bench run` and `penny-bench schema`, as a user runs them."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from penny_bench.cli import main
from penny_bench.errors import BenchError
from penny_bench.evidence import schema
from penny_bench.mock import Refusal, Script, running, token_script
from penny_bench.run_command import parse_duration
from penny_bench.text import passages

FIRST = 1 + len(passages())
"""Requests that come before the warm-ups."""
PROGRAM = [sys.executable, "-c", "from penny_bench.cli import main; main()"]


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "COLUMNS": "160"}
    return subprocess.run(
        [*PROGRAM, *map(str, arguments)], capture_output=True, text=True, check=False, env=environment
    )


def inside(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int:
    """The exit status of the command, run in this process."""
    monkeypatch.setattr(sys, "argv", ["penny-bench", *map(str, arguments)])
    with pytest.raises(SystemExit) as caught:
        main()
    return int(caught.value.code or 0)


def quick(number: int, body: dict[str, Any], cached: int | None = 0) -> Script:
    return token_script(
        tokens=body["max_tokens"], per_chunk=4, interval=0.002, usage="running", cached_tokens=cached
    )


def read(path: Path) -> dict[str, Any]:
    value: dict[str, Any] = json.loads(path.read_text())
    jsonschema.Draft202012Validator(schema()).validate(value)
    return value


def test_run_writes_evidence(tmp_path: Path) -> None:
    path = tmp_path / "run.json"
    with running(quick, {"/server_info": {"version": "9", "api_key": "sesame"}}) as mock:
        done = run(
            *("run", "--url", mock.url, "--load", "poisson:rate=50", "--requests", "12", "--tokens", "10"),
            *(
                "--warmups",
                "3",
                "--seed",
                "5",
                "--slo",
                "ttft=60,tpot=60",
                "--api-key",
                "sesame",
                "--json",
                path,
            ),
        )
    assert done.returncode == 0, done.stderr
    for words in ("mock, poisson rate 50.0", "12 of 12 requests succeeded", "12 met the objectives"):
        assert words in done.stdout
    value = read(path)
    assert value["status"] == "complete"
    assert value["command"].endswith(f"--api-key ... --json {path.name}")
    assert value["server"]["info"]["server_info"] == {"version": "9"}
    assert value["server"]["info"]["pools"] is None
    assert "HTTP 404" in value["server"]["info"]["not_told"]["pools"]
    assert (len(value["requests"]), len(value["warmups"]), len(value["preflight"])) == (12, 3, FIRST)
    assert [r["usage"]["output_tokens"] for r in value["requests"]] == [10] * 12
    assert all(r["sent"] >= r["scheduled"] for r in value["requests"])
    assert (value["cache"]["verdict"], value["summary"]["good"]) == ("clean", 12)
    assert "sesame" not in path.read_text()
    assert str(tmp_path) not in path.read_text()


def test_cached_prompts_are_refused_or_labelled(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.json"

    def warm(number: int, body: dict[str, Any]) -> Script:
        return quick(number, body, cached=33 if number == FIRST + 1 else 32)

    with running(warm) as mock:
        command = (
            "run",
            "--url",
            mock.url,
            "--requests",
            "3",
            "--tokens",
            "4",
            "--warmups",
            "0",
            "--json",
            path,
        )
        assert inside(monkeypatch, *command) == 4
    assert read(path)["cache"] == {
        "verdict": "contaminated",
        "limit": 32,
        "reported": 3,
        "above": 1,
        "most": 33,
        "total": 97,
    }
    assert "CONTAMINATED" in capsys.readouterr().out
    with running(warm) as mock:
        assert inside(monkeypatch, *command[:2], mock.url, *command[3:], "--allow-cached") == 0
    assert read(path)["cache"]["verdict"] == "contaminated"


def test_failures_change_the_status(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def busy(number: int, body: dict[str, Any]) -> Script:
        return Refusal(503, "overloaded") if number == FIRST + 1 else quick(number, body, cached=None)

    with running(busy) as mock:
        status = inside(
            monkeypatch, "run", "--url", mock.url, "--requests", "3", "--tokens", "4", "--warmups", "0"
        )
    assert status == 1
    shown = capsys.readouterr().out
    assert "2 of 3 requests succeeded" in shown
    assert "1 failed: http" in shown
    assert "whether one took part is unknown" in shown


def test_ctrl_c_writes_a_partial_document(tmp_path: Path) -> None:
    path = tmp_path / "run.json"

    def stuck(number: int, body: dict[str, Any]) -> Script:
        return token_script(tokens=4, interval=60.0) if number == FIRST + 2 else quick(number, body)

    with running(stuck) as mock:
        settings = ("--requests", "9", "--tokens", "4", "--warmups", "0", "--json", str(path))
        child = subprocess.Popen(
            [*PROGRAM, "run", "--url", mock.url, *settings],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        while len(mock.bodies) <= FIRST + 2:
            assert child.poll() is None
            time.sleep(0.02)
        child.send_signal(signal.SIGINT)
        out, errors = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "Traceback" not in errors
    assert "Interrupted" in out
    value = read(path)
    assert value["status"] == "partial"
    failures = [request["failure"] and request["failure"]["kind"] for request in value["requests"]]
    assert failures == [None, None, "interrupted"]


def test_schema_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert inside(monkeypatch, "schema") == 0
    assert json.loads(capsys.readouterr().out) == schema()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--load", "burst"], "There is no load 'burst'"),
        (["--duration", "soon"], "--duration is 'soon'; give a number with s, m or h"),
        (["--slo", "speed=1"], "names no limit that is known"),
        (["--json", "no/such/x.json"], "There is no folder no/such"),
        ([], "No server answers at http://127.0.0.1:9/v1"),
        (["--timeout", "0"], "--timeout is 0; give seconds above 0."),
        (
            ["--workload", "sweep", "--requests", "5", "--tokens", "9"],
            "--requests and --tokens would do nothing: a workload has its own settings",
        ),
    ],
)
def test_errors_are_sentences_with_status_2(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], arguments: list[str], words: str
) -> None:
    assert inside(monkeypatch, "run", "--url", "http://127.0.0.1:9", *arguments) == 2
    assert words in capsys.readouterr().err


def test_durations() -> None:
    assert [parse_duration(text) for text in ("90", "60s", "1.5m", "2h")] == [90, 60, 90, 7200]
    for text in ("", "s", "-1s", "1d", "1e3"):
        with pytest.raises(BenchError):
            parse_duration(text)


def test_sigterm_before_anything_is_measured(tmp_path: Path) -> None:
    with running(lambda number, body: token_script(tokens=4, interval=60.0)) as mock:
        child = subprocess.Popen(
            [*PROGRAM, "run", "--url", mock.url, "--json", str(tmp_path / "run.json")],
            stderr=subprocess.PIPE,
            text=True,
        )
        while not mock.bodies:
            assert child.poll() is None
            time.sleep(0.02)
        child.send_signal(signal.SIGTERM)
        _, errors = child.communicate(timeout=60)
    assert child.returncode == 130
    assert "Traceback" not in errors
    assert list(tmp_path.iterdir()) == []


def test_a_key_that_the_server_repeats_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuses(number: int, body: dict[str, Any]) -> Script:
        return (
            quick(number, body) if number < FIRST else Refusal(401, "Incorrect API key provided: sk-sesame")
        )

    path = tmp_path / "run.json"
    with running(refuses) as mock:
        flags = ("--requests", "1", "--warmups", "0", "--api-key", "sk-sesame", "--json", path)
        assert inside(monkeypatch, "run", "--url", mock.url, *flags) == 1
    assert "sesame" not in path.read_text()
    assert read(path)["requests"][0]["failure"]["message"].endswith("Incorrect API key provided: ...")


def test_a_run_goes_on_with_the_same_model_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run.json"
    flags = ("--requests", "1", "--tokens", "4", "--warmups", "0")
    with running(quick) as mock:
        assert inside(monkeypatch, "run", "--url", mock.url, *flags, "--json", path) == 0
        path.write_text(json.dumps({**read(path), "status": "partial"}))
        again = ("run", "--url", mock.url, *flags, "--resume", path)
        assert inside(monkeypatch, *again, "--model", "other") == 2
        assert "The run was of the model mock, and the server has other" in capsys.readouterr().err
        assert inside(monkeypatch, *again, "--same-prompt") == 2
        assert "The run had same_prompt False, not True" in capsys.readouterr().err
