"""`penny-bench compare` with files that `penny-bench decode` wrote."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penny_bench.cli import main
from penny_bench.mock import Script, running, token_script

Run = Callable[..., int]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.setenv("COLUMNS", "160")

    def run(*arguments: str | Path) -> int:
        monkeypatch.setattr(sys, "argv", ["penny-bench", *map(str, arguments)])
        with pytest.raises(SystemExit) as caught:
            main()
        return int(caught.value.code or 0)

    return run


def write_restarts(run: Run) -> None:
    """Measure once, and write from that the restarts of two sides with rates and TTFT that are known."""

    def answer(number: int, body: dict[str, Any]) -> Script:
        return token_script(tokens=body["max_tokens"], per_chunk=4, interval=0.005, usage="running")

    with running(answer) as mock:
        settings = ("--concurrency", "1,2", "--tokens", "32", "--runs", "1", "--warmups", "0")
        assert run("decode", "--url", mock.url, *settings, "--json", "once.json") == 0
    once = json.loads(Path("once.json").read_text())
    for side, rates in {"old": [100.0, 101.0, 99.0], "new": [80.0, 81.0, 79.0]}.items():
        Path(side).mkdir()
        for number, rate in enumerate(rates):
            for row in once["summary"]:
                row["aggregate"]["median"] = rate * row["concurrency"]
                row["ttft"]["median"] = rate / 1000
            Path(side, f"{number}.json").write_text(json.dumps(once))


def test_compare(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    write_restarts(run)
    capsys.readouterr()
    assert run("compare", "old", "new", "--json", "c.json", "--floor", "1=5,2=8") == 1
    shown = capsys.readouterr().out
    assert "B is worse than A at C1 (all), C2 (all)." in shown
    assert "It is better at C1 (TTFT), C2 (TTFT)." in shown
    value = json.loads(Path("c.json").read_text())
    assert (value["verdict"], value["exit_status"]) == ("worse", 1)
    assert value["command"].startswith("penny-bench compare old new")
    rows = value["rows"]
    assert [(row["workload"], row["phase"], row["metric"]) for row in rows] == [
        ("decode", phase, metric) for phase in ("C1", "C2") for metric in ("aggregate", "ttft")
    ]
    # 100 tok/s for each stream are 10 ms a token.
    assert [rows[0]["floor_a"], rows[2]["floor_a"]] == pytest.approx([0.5, 0.8], abs=0.001)
    assert all(row["change"] == pytest.approx(-0.2, abs=0.001) for row in rows)
    assert run("compare", "old", "new", "--metric", "ttft", "--markdown") == 0
    assert "**B is better than A at C1 (TTFT), C2 (TTFT).**" in capsys.readouterr().out
    assert run("compare", "old", "new", "--margin", "0.25", "--metric", "aggregate") == 0
    assert "B equals A within 25 % at C1 (all), C2 (all)." in capsys.readouterr().out
    assert run("compare", "old/0.json,old/1.json", "new/2.json") == 3
    assert "One restart a side shows no spread" in capsys.readouterr().out


def test_documents_of_real_runs(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)

    def answer(number: int, body: dict[str, Any]) -> Script:
        return token_script(tokens=body["max_tokens"], per_chunk=4, interval=0.005, usage="running")

    settings = ("--requests", "3", "--tokens", "16", "--warmups", "0")
    for number, side in enumerate("abba"):
        folder = Path(side, str(number))
        folder.mkdir(parents=True)
        with running(answer) as mock:
            assert run("run", "--url", mock.url, *settings, "--json", folder / "load.json") == 0
    capsys.readouterr()
    # Whatever the noise of this machine says, it is said of these numbers.
    assert run("compare", "a", "b", "--paired", "--metric", "output*,run/*/ttft*", "--json", "c.json") in (
        0,
        1,
        3,
    )
    value = json.loads(Path("c.json").read_text())
    listed = json.loads(Path("a", "0", "load.json").read_text())["metrics"]
    wanted = [metric for metric in listed if metric["key"].startswith(("output", "ttft"))]
    assert len(wanted) >= 2
    for row, metric in zip(value["rows"], wanted, strict=True):
        assert (row["workload"], row["metric"], row["unit"], row["better"]) == (
            "run",
            metric["key"],
            metric["unit"],
            metric["better"],
        )
        assert row["a"][0] == metric["value"]
    assert [restart["restart"] for restart in value["a"]] == ["a/0", "a/3"]
    assert run("compare", "a", "b", "--metric", "none") == 2
    assert "No metric matches 'none'; there are " in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.json", "none.json"], "Could not read none.json: No such file"),
        (["a", "b", "--floor", "x=1"], "--floor is 'x=1'"),
        (["a", "b", "--json", "no/such/x.json"], "There is no folder no/such"),
    ],
)
def test_errors(
    run: Run,
    arguments: list[str],
    words: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run("compare", *arguments) == 2
    assert capsys.readouterr().err.startswith(f"penny-bench: {words}")
