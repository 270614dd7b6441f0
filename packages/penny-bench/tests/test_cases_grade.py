"""Runs of the reasoning workload against the mock, and the marks of a person on them."""

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import typer
from typer.testing import CliRunner, Result

from penny_bench.cases.reasoning import CASES, WARMUPS, Question
from penny_bench.cases.reasoning.grade_command import grade
from penny_bench.cases.reasoning.marks import graded, read_marks
from penny_bench.cases.reasoning.sheet import markdown, sheet
from penny_bench.client import Reply, Server
from penny_bench.errors import BenchError
from penny_bench.evidence import Around, evidence, schema
from penny_bench.mock import MockServer, Refusal, Script, token_script
from penny_bench.mock.reply import reply_script
from penny_bench.workload import WorkloadResult, measure_workload, read_workload
from penny_bench.workload.kinds.reasoning import groups

Say = Callable[[str, int, Question], Reply | Refusal]


def expected(question: Question) -> dict[str, Any]:
    return {key.name: key.value for item in question.items for key in item.keys}


def clever(case: str, turn: int, question: Question) -> Reply:
    return Reply(f"Thus, for {case}:\n```json\n{json.dumps(expected(question))}\n```", "Hm, let me think.")


def measure(say: Say, **changed: Any) -> tuple[WorkloadResult, list[dict[str, Any]]]:
    asked = {
        question.prompt: (case.name, n, question)
        for case in CASES
        for n, question in enumerate(case.questions)
    }

    def answer(number: int, body: dict[str, Any]) -> Script:
        found = asked.get(body["messages"][-1]["content"])
        if found is None:
            return token_script(tokens=2)
        reply = say(*found)
        return reply if isinstance(reply, Refusal) else reply_script(reply)

    async def go() -> tuple[WorkloadResult, list[dict[str, Any]]]:
        async with MockServer(answer).start() as mock:
            server = await Server.connect(mock.url)
            result = await measure_workload(server, read_workload("reasoning", changed), seed=2)
            return result, [body for body in mock.bodies if body["max_tokens"] > 2]

    return asyncio.run(go())


def document(result: WorkloadResult, minute: int = 0) -> dict[str, Any]:
    started = datetime(2031, 1, 1, 12, minute, tzinfo=UTC)
    around = Around(words=["penny-bench", "run"], started=started, penny_bench="0")
    made = json.loads(json.dumps(evidence(result, around)))
    assert isinstance(made, dict)
    return made


@pytest.fixture(scope="module")
def run() -> dict[str, Any]:
    return document(measure(clever)[0])


def numbers(result: WorkloadResult) -> dict[str, str]:
    return {metric.key: f"{metric.value:g} {metric.unit}" for metric in result.metrics}


# ---- runs


def test_the_profile_and_a_model_that_knows_everything() -> None:
    result, bodies = measure(clever, effort="xhigh")
    assert [(p.warmup, p.streams, [r.case for r in p.requests]) for p in result.phases if p.warmup] == [
        (True, 1, [None, None])
    ]
    ran = [sorted(r.case.split()[0] for r in p.requests if r.case) for p in result.phases if not p.warmup]
    assert ran == [["C1"], ["C2", "C3", "C4"], ["C5", "C6", "C7"], ["C8", "C8"]]
    assert [phase.streams for phase in result.phases] == [1, 1, 3, 3, 1]
    found = numbers(result)
    assert found["program_points"] == "64 of 64"  # 16 of the 25 items
    assert all(check.passed is not False for check in result.checks)
    assert sum(check.passed is None for check in result.checks) == 9
    assert any("36 of 100 points" in note for note in result.notes)
    assert len(bodies) == 11
    assert {body["reasoning_effort"] for body in bodies} == {"xhigh"}
    assert {body["temperature"] for body in bodies} == {0.8}
    assert all(any(text in bodies[n]["messages"][0]["content"] for text in WARMUPS) for n in (0, 1))
    # One token for each five characters that the mock sends.
    sent = [clever(case.name, n, question) for case in CASES for n, question in enumerate(case.questions)]
    tokens = sum(-(-len(reply.content) // 5) + -(-len(reply.reasoning) // 5) for reply in sent)
    assert found["tokens"] == f"{tokens:g} tokens"
    assert {f"seconds_c{n}" for n in range(1, 9)} <= found.keys()
    requests = [r.record for phase in result.phases if not phase.warmup for r in phase.requests]
    rate = tokens / sum(record.ended - record.sent for record in requests)
    assert [m.value for m in result.metrics if m.key == "request_rate"] == [pytest.approx(rate)]


def test_the_correction_goes_on_with_what_the_model_said() -> None:
    _, bodies = measure(clever, cases=["C8"], warmups=0)
    assert [len(body["messages"]) for body in bodies] == [3, 5]
    own = bodies[1]["messages"][3]
    assert own["content"].startswith("Thus, for C8")
    assert own["reasoning_content"] == "Hm, let me think."


def test_a_model_that_knows_nothing_and_one_that_gives_in() -> None:
    result, _ = measure(lambda case, turn, question: Reply("I cannot say."), warmups=0)
    assert numbers(result)["program_points"] == "0 of 64"

    def weak(case: str, turn: int, question: Question) -> Reply:
        values = expected(question)
        if turn == 1:
            values = {"colleague_is_right": True, "full_at": "13:24:00"}
        return Reply(json.dumps(values))

    result, _ = measure(weak, warmups=0)
    assert numbers(result)["program_points"] == "60 of 64"
    assert [check.name for check in result.checks if check.passed is False] == ["holds to the right answer"]


def test_what_the_server_does_not_answer_earns_nothing() -> None:
    def say(case: str, turn: int, question: Question) -> Reply | Refusal:
        return Refusal(500, "no") if case.startswith(("C3", "C8")) else clever(case, turn, question)

    result, bodies = measure(say)
    assert len(bodies) == 2 + 8  # without an answer there is nothing to go on with
    # Of 64 points, 8 of C3 and 8 of C8 are lost; with them 12 that a person would have given are decided.
    assert numbers(result)["program_points"] == "48 of 76"
    assert sum(check.of for check in result.checks) == 100
    assert "seconds_c3" not in numbers(result)
    assert len(sheet([document(result)], 1)["replies"]) == 6


def test_groups() -> None:
    assert [len(group) for group in groups(CASES, (1, 3, 3, 1))] == [1, 3, 3, 1]
    assert [len(group) for group in groups(CASES, (5,))] == [5, 1, 1, 1]
    assert [len(group) for group in groups(CASES[:2], (3, 3))] == [2]
    with pytest.raises(BenchError, match="at least one user"):
        read_workload("reasoning", {"profile": [1, 0]})
    with pytest.raises(BenchError, match="there is no case 'C9'"):
        read_workload("reasoning", {"cases": ["C9"]})


# ---- the sheet


def test_the_sheet_is_blind_and_its_order_comes_from_the_seed(run: dict[str, Any]) -> None:
    other = document(measure(lambda case, turn, question: Reply("I cannot say."))[0], minute=30)
    made = sheet([run, other], 7)
    text = markdown([run, other], 7)
    assert len(made["replies"]) == 18
    assert sum(len(reply["items"]) for reply in made["replies"]) == 18
    for hidden in (run["server"]["url"], run["server"]["model"], run["started"], "mock", "Hm, let me think"):
        assert hidden not in json.dumps(made)
        assert hidden not in text
    assert made == sheet([run, other], 7)
    order = [reply["id"] for reply in made["replies"]]
    assert order == [line.split()[1] for line in text.splitlines() if line.startswith("## ")]
    assert made == sheet([other, run], 7)  # whose file comes first tells nothing
    cases = [reply["case"] for reply in made["replies"]]
    assert cases != sorted(cases)
    assert cases != [reply["case"] for reply in sheet([run, other], 8)["replies"]]
    assert text.count("I cannot say.") == 9 + 1  # once more before the second question of C8
    assert text.count("The tank is full at 13:03.") == 4  # what the model is told that it said
    with pytest.raises(BenchError, match="given twice"):
        sheet([run, run], 7)


def test_the_sheet_tells_what_was_said_before_and_leaves_out_what_is_empty() -> None:
    def say(case: str, turn: int, question: Question) -> Reply:
        return Reply(f"This is turn {turn} of {case}." if case.startswith("C8") else " ")

    made = document(measure(say, warmups=0)[0])
    assert [reply["case"] for reply in sheet([made], 1)["replies"]] == ["C8 correction"] * 2
    text = markdown([made], 1)
    second = next(part for part in text.split("\n## ") if "Reply to be marked:\n\n> This is turn 1" in part)
    assert "Assistant, before:\n\n> This is turn 0 of C8 correction." in second
    assert (
        second.index("step by step")
        < second.index("turn 0")
        < second.index("A colleague")
        < second.index("turn 1")
    )
    assert made["checks"]["open"] == 2


def test_marks_are_counted(run: dict[str, Any]) -> None:
    made = sheet([run], 3)
    for number, reply in enumerate(made["replies"]):
        reply["items"][0]["mark"] = [4, 3.5, 0][number % 3]
    before = json.dumps(run)
    result = graded(run, read_marks(made))
    assert json.dumps(run) == before
    assert (result.program, result.person, result.of, result.found) == (64, 3 * 7.5, 100, 9)
    assert result.unmarked == ()
    points = [metric for metric in result.document["metrics"] if metric["key"] == "points"]
    assert [(metric["value"], metric["unit"]) for metric in points] == [(86.5, "of 100")]
    assert result.document["checks"]["score"] == 86.5
    assert (result.document["checks"]["open"], result.document["checks"]["failed"]) == (0, 6)
    jsonschema.validate(result.document, schema())
    again = graded(result.document, read_marks(made))  # nothing is counted twice
    assert again.document == result.document


def test_what_is_unmarked_is_told(run: dict[str, Any]) -> None:
    made = sheet([run], 3)
    made["replies"][0]["items"][0]["mark"] = 2
    result = graded(run, read_marks(made))
    assert (result.person, len(result.unmarked)) == (2, 8)
    assert all(metric["key"] != "points" for metric in result.document["metrics"])
    assert result.document["checks"]["open"] == 8


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda made: made.update(schema="x"), "have the schema 'x'"),
        (lambda made: made["replies"][0]["items"][0].update(mark=4.5), r"replies\.0\.items\.0\.mark"),
        (lambda made: made["replies"][0]["items"][0].update(mark=-1), "greater than or equal to 0"),
        (lambda made: made["replies"][0]["items"][0].update(mark="good"), "valid number"),
        (lambda made: made["replies"][0]["items"][0].update(name="beauty"), "has no item 'beauty'"),
        (lambda made: made.pop("seed"), "seed"),
    ],
)
def test_wrong_marks_are_refused(run: dict[str, Any], change: Callable[[Any], Any], message: str) -> None:
    made = sheet([run], 3)
    change(made)
    with pytest.raises(BenchError, match=message):
        graded(run, read_marks(made))


def test_only_reasoning_runs_can_be_graded(run: dict[str, Any]) -> None:
    with pytest.raises(BenchError, match="no result of the workload reasoning"):
        sheet([{**run, "workload": None}], 1)
    strange = json.loads(json.dumps(run))
    strange["requests"][0]["case"] = "C9 other"
    with pytest.raises(BenchError, match="no case 'C9 other'"):
        sheet([strange], 1)


# ---- the command


def command(*words: object) -> Result:
    app = typer.Typer()
    app.command()(grade)
    return CliRunner().invoke(app, [str(word) for word in words])


def test_the_command(run: dict[str, Any], tmp_path: Path) -> None:
    file, out = tmp_path / "run.json", tmp_path / "sheet"
    file.write_text(json.dumps(run))
    made = command(file, "--sheet", out, "--seed", 5)
    assert made.exit_code == 0
    assert made.stdout.startswith("9 replies with 9 items")
    assert "C8 correction" in (tmp_path / "sheet.md").read_text()
    marks = json.loads((tmp_path / "sheet.json").read_text())
    assert marks == sheet([run], 5)
    for reply in marks["replies"][1:]:
        reply["items"][0]["mark"] = 3
    (tmp_path / "sheet.json").write_text(json.dumps(marks))
    part = command(file, "--marks", tmp_path / "sheet.json")
    assert part.exit_code == 1
    assert "88 of 100 points, 64 by program and 24 by a person; 1 items are unmarked" in part.stdout
    marks["replies"][0]["items"][0]["mark"] = 4
    (tmp_path / "sheet.json").write_text(json.dumps(marks))
    whole = command(file, "--marks", tmp_path / "sheet.json")
    assert whole.exit_code == 0
    assert whole.stdout.rstrip().endswith("92 of 100 points, 64 by program and 28 by a person.")
    assert json.loads(file.read_text())["checks"]["score"] == 92


def test_the_command_refuses(run: dict[str, Any], tmp_path: Path) -> None:
    file = tmp_path / "run.json"
    file.write_text(json.dumps(run))
    (tmp_path / "old.json").write_text("{}")
    other = sheet([document(measure(clever, cases=["C1"])[0], minute=1)], 1)
    (tmp_path / "other.json").write_text(json.dumps(other))
    before = file.read_text()
    for words, message in (
        ((file,), "Give either --sheet"),
        ((file, "--sheet", tmp_path / "x", "--marks", file), "Give either --sheet"),
        ((file, "--sheet", tmp_path / "no" / "x"), "There is no folder"),
        ((file, "--sheet", tmp_path / "old"), "perhaps with marks"),
        ((tmp_path / "none.json", "--sheet", tmp_path / "x"), "cannot be read"),
        ((file, "--marks", tmp_path / "old.json"), "The marks are wrong at"),
        ((file, "--marks", tmp_path / "other.json"), "None of the marks is for a reply"),
    ):
        result = command(*words)
        assert isinstance(result.exception, BenchError)
        assert message in str(result.exception)
    assert file.read_text() == before
