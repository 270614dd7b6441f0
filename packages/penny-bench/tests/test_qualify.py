"""Qualification: plans, marks, the page, and going on after an interruption."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penny_bench.cli import main
from penny_bench.errors import BenchError
from penny_bench.mock import Refusal, Script, running, token_script
from penny_bench.qualify import Mark, PlannedRun, judge, read_plan

PLAN = """
title = "A | server"
url = "http://127.0.0.1:9"
text = "Two words."

[[run]]
workload = "decode-short"
set = { concurrency = [1], tokens = 8, runs = 2 }
[[run.mark]]
metric = "C1/stream"
at_least = 50
[[run.mark]]
metric = "C1/ttft"
at_most = 0.5

[[run]]
workload = "mine.toml"
name = "long-prompt"
seed = 1
[[run.mark]]
metric = "prefill 64/prefill"
at_least = 1
"""
MINE = """
name = "mine"
title = "One prompt"
version = 3
kind = "prefill"
[settings]
prompt_tokens = [64]
tokens = 4
runs = 1
warmups = 0
"""


def plain(number: int, body: dict[str, Any]) -> Script:
    return token_script(tokens=body["max_tokens"], interval=0.005)


def cli(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int:
    monkeypatch.setattr("sys.argv", ["penny-bench", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    (tmp_path / "mine.toml").write_text(MINE)
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    return path


def test_a_plan_is_run_and_its_page_written(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out"
    with running(plain) as mock:
        assert cli(monkeypatch, "qualify", plan, "--out", out, "--url", mock.url) == 1
        sent = len(mock.bodies)
        page = (out / "qualification.md").read_text()
        assert page.startswith("# A | server\n\n**Not qualified: 4 of 5 marks reached.**\n\nTwo words.\n")
        assert "| decode-short | C1/stream | at least 50 |" in page
        assert "| long-prompt | prefill 64/prefill | at least 1 | not there | **missed**" in page
        assert "Settings other than in the workload: concurrency = [1], tokens = 8, runs = 2." in page
        assert "One prompt (version 3," in page
        found = json.loads((out / "qualification.json").read_text())
        assert not found["passed"]
        assert [mark["passed"] for mark in found["runs"][0]["marks"]] == [True, True, True]
        assert "url" not in found["plan"]
        seeds = [json.loads((out / run["file"]).read_text())["plan"]["seed"] for run in found["runs"]]
        assert isinstance(seeds[0], int)  # drawn
        assert seeds[1] == 1
        # The same again: both results are kept, and no request is sent.
        assert cli(monkeypatch, "qualify", plan, "--out", out, "--url", mock.url) == 1
        assert len(mock.bodies) == sent
        assert "kept from before" in capsys.readouterr().out
        # A partial result goes on, with its own requests alone.
        part = json.loads((out / "long-prompt.json").read_text())
        part["status"] = "partial"
        part["phases"][-1]["ended"] = None
        (out / "long-prompt.json").write_text(json.dumps(part))
        assert cli(monkeypatch, "qualify", plan, "--out", out, "--url", mock.url) == 1
        assert len(mock.bodies) == sent + len(part["preflight"]) + 1
        again = json.loads((out / "long-prompt.json").read_text())
        assert again["status"] == "complete"
        assert len(again["earlier"]) == 1
        # A result of another seed is not taken for this one.
        part["plan"]["seed"] = 2
        (out / "long-prompt.json").write_text(json.dumps(part))
        assert cli(monkeypatch, "qualify", plan, "--out", out, "--url", mock.url) == 2
        assert "is of another workload, setting or seed" in capsys.readouterr().err


def test_a_failed_request_misses_a_mark_that_is_always_there(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(number: int, body: dict[str, Any]) -> Script:
        return Refusal(503, "full") if body["max_tokens"] == 4 else plain(number, body)

    out = tmp_path / "out"
    with running(answer) as mock:
        assert cli(monkeypatch, "qualify", plan, "--out", out, "--url", mock.url) == 1
    marks = json.loads((out / "qualification.json").read_text())["runs"][1]["marks"]
    assert (marks[0]["what"], marks[0]["value"], marks[0]["passed"]) == ("failed requests", 1.0, False)


DOCUMENT: dict[str, Any] = {
    "status": "complete",
    "cache": {"verdict": "clean", "most": 0},
    "summary": {"errors": {"http": 1, "timeout": 1}},
    "metrics": [
        {"phase": "C1", "key": "stream", "value": 100.0, "unit": "tok/s"},
        {"phase": None, "key": "points", "value": 90.0, "unit": "points"},
    ],
    "checks": {
        "rows": [
            {"case": "needle-1", "passed": True, "points": 3.0},
            {"case": "needle-2", "passed": False, "points": 0.0},
            {"case": "needle-3", "passed": None, "points": 0.0},
            {"case": "tool", "passed": True, "points": 5.0},
        ]
    },
}


@pytest.mark.parametrize(
    ("mark", "value", "passed"),
    [
        ({"metric": "C1/stream", "at_least": 100}, 100.0, True),
        ({"metric": "C1/stream", "at_least": 100.1}, 100.0, False),
        ({"metric": "C1/stream", "at_least": 50, "at_most": 99}, 100.0, False),
        ({"metric": "points", "at_least": 90}, 90.0, True),
        ({"metric": "C1/points", "at_least": 90}, None, False),
        ({"metric": "C4/stream", "at_most": 1}, None, False),
        ({"checks": "*", "at_least": 0.6}, 2 / 3, True),
        ({"checks": "needle-*", "at_least": 0.51}, 0.5, False),
        ({"checks": "needle-3", "at_least": 0}, None, False),
        ({"checks": "none", "at_least": 0}, None, False),
        ({"points": "*", "at_least": 8}, 8.0, True),
        ({"points": "needle-*", "at_least": 4}, 3.0, False),
        ({"failures": True, "at_most": 2}, 2.0, True),
    ],
)
def test_marks(mark: dict[str, Any], value: float | None, passed: bool) -> None:
    always = [] if mark.get("failures") else [Mark(failures=True, at_most=2)]
    run = PlannedRun.model_validate({"workload": "w", "mark": [*always, Mark(**mark)]})
    found = judge(run, DOCUMENT)
    assert all(judged.passed for judged in found[:-1])
    assert (found[-1].value, found[-1].passed) == (pytest.approx(value), passed)


def test_marks_that_are_always_there() -> None:
    run = PlannedRun.model_validate({"workload": "w"})
    assert [(j.what, j.passed) for j in judge(run, DOCUMENT)] == [("failed requests", False)]
    spoiled = {**DOCUMENT, "status": "partial", "cache": {"verdict": "contaminated", "most": 640}}
    missed = [judged.what for judged in judge(run, spoiled) if not judged.passed]
    assert missed == ["complete", "cached prompt tokens", "failed requests"]
    allowed = PlannedRun.model_validate({"workload": "w", "allow_cached": True})
    assert "cached prompt tokens" not in [judged.what for judged in judge(allowed, spoiled)]


@pytest.mark.parametrize(
    ("old", "new", "words"),
    [
        ('title = "A | server"', "", "title: Field required"),
        ("at_least = 50", "atleast = 50", "run.0.mark.0.atleast: Extra inputs"),
        ("at_least = 50", "", "give at_least or at_most"),
        ('metric = "C1/stream"', "", "name one of metric, checks, points and failures"),
        ('name = "long-prompt"', 'name = "decode-short"', "two runs are called 'decode-short'"),
        ('name = "long-prompt"', 'name = "../up"', "run.1.name"),
        ("[[run]]", "[[run", "is not TOML"),
    ],
)
def test_wrong_plans_are_told(plan: Path, old: str, new: str, words: str) -> None:
    plan.write_text(PLAN.replace(old, new, 1))
    with pytest.raises(BenchError, match=words):
        read_plan(plan)


def test_a_workload_that_is_not_there_stops_before_anything_is_sent(
    plan: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan.write_text(PLAN.replace('"mine.toml"', '"other.toml"'))
    with running(plain) as mock:
        assert cli(monkeypatch, "qualify", plan, "--out", tmp_path / "out", "--url", mock.url) == 2
        assert mock.bodies == []
