"""Media: the judge, and runs against servers that can and cannot see."""

from __future__ import annotations

import asyncio
import base64
import builtins
import importlib
import json
import sys
from typing import Any

import pytest

from penny_bench.cases.media import NAMES, Call, Question, answer_checks
from penny_bench.client import Reply, Server, ToolCall
from penny_bench.errors import BenchError
from penny_bench.mock import Refusal, Script, running
from penny_bench.mock.reply import reply_script
from penny_bench.workload import WorkloadResult, measure_workload, read_workload

for module in ("av", "PIL"):
    pytest.importorskip(module, reason="the extra penny-bench[media] is not installed")

from drawn_media import drawn, media_of  # noqa: E402

# ---- the judge

ONE = Question((), {"shape": "star", "second": 4, "lines": ["AB-1", "CD-2"]}, {"second": 1.0})


@pytest.mark.parametrize(
    ("content", "passed"),
    [
        ('{"shape": "star", "second": 4, "lines": ["AB-1", "CD-2"]}', [True, True, True]),
        (
            'Sure.\n```json\n{"shape": " Star", "second": 5.0, "lines": ["ab-1", "CD-2"]}\n```',
            [True, True, True],
        ),
        ('{"shape": "stars", "second": 5.1, "lines": ["CD-2", "AB-1"]}', [False, False, False]),
        ('{"shape": 4, "second": "4", "lines": "AB-1"}', [False, True, False]),
        ('{"second": true, "lines": ["AB-1"]}', [False, False, False]),
        ('{"shape": "circle"} no, {"shape": "star", "second": 3, "lines": []}', [True, True, False]),
        ("star", [False, False, False]),
        ("", [False, False, False]),
    ],
)
def test_answers(content: str, passed: list[bool]) -> None:
    checks = answer_checks("c", ONE, Reply(content))
    assert [check.passed for check in checks] == passed
    assert sum(check.of for check in checks) == pytest.approx(1.0)
    assert sum(check.points for check in checks) == pytest.approx(sum(passed) / 3)


@pytest.mark.parametrize(
    ("calls", "passed"),
    [
        ([("book", '{"item": "Rope", "quantity": 3, "price": 1.5}')], True),
        ([("book", '{"item": "rope", "quantity": "3", "price": 1.50}')], True),
        ([("book", '{"item": "Rope", "quantity": 4, "price": 1.5}')], False),
        ([("book", '{"item": "Rope", "quantity": 3}')], False),
        ([("book", '{"item": "Rope", "quantity": 3, "price": 1.5, "more": 1}')], False),
        ([("other", '{"item": "Rope", "quantity": 3, "price": 1.5}')], False),
        ([("book", '{"item": "Rope", "quantity": 3, "price": 1.5}')] * 2, False),
        ([("book", "nonsense")], False),
        ([], False),
    ],
)
def test_calls(calls: list[tuple[str, str]], passed: bool) -> None:
    question = Question((), call=Call("book", {"item": "Rope", "quantity": 3, "price": 1.5}))
    reply = Reply(tool_calls=tuple(ToolCall(name, arguments, "c") for name, arguments in calls))
    (check,) = answer_checks("c", question, reply)
    assert (check.passed, check.points, check.of) == (passed, float(passed), 1.0)


# ---- the kind


def measured(answer: Any, **settings: Any) -> tuple[WorkloadResult, list[dict[str, Any]]]:
    workload = read_workload("media", {"history_tokens": 2000, "tokens": 64, **settings})

    async def run(url: str) -> WorkloadResult:
        return await measure_workload(await Server.connect(url), workload, 7)

    with running(answer) as mock:
        result = asyncio.run(run(mock.url))
    return result, [body for body in mock.bodies if body["max_tokens"] == 64]


def kinds(body: dict[str, Any]) -> set[str]:
    return {
        part["type"]
        for message in body["messages"]
        if isinstance(message["content"], list)
        for part in message["content"]
    }


def knowing(number: int, body: dict[str, Any]) -> Script:
    """A server that drew the pictures too."""
    if body["max_tokens"] == 2:
        return reply_script(Reply("yes"))
    seen = json.dumps(body["messages"])
    for name in NAMES:
        scenario = drawn(name, 7)
        for turn, question in enumerate(scenario.questions):
            last = question.added[-1]["content"]
            words = last if isinstance(last, str) else last[-1]["text"].removeprefix("No. 1.\n\n")
            if json.dumps(words)[1:-1] in json.dumps(body["messages"][-1]):
                pictures = media_of(scenario) if turn == 0 else []
                assert all(base64.b64encode(data).decode() in seen for data in pictures)
                if question.call:
                    call = ToolCall(question.call.name, json.dumps(question.call.arguments), "c1")
                    return reply_script(Reply(tool_calls=(call,)), size=200)
                return reply_script(Reply(json.dumps(question.answer)), size=200)
    return Refusal(500, f"nothing fits {seen[-300:]}")


def values(result: WorkloadResult) -> dict[str, float]:
    return {metric.key: metric.value for metric in result.metrics}


def test_a_server_that_sees_everything() -> None:
    result, bodies = measured(knowing)
    assert not any("left out" in note for note in result.notes), result.notes
    assert len(bodies) == 12  # ten scenarios, three questions in one
    assert [(p.name, p.warmup, p.cached, len(p.requests)) for p in result.phases] == [
        ("probe", True, False, 2),
        ("media", False, False, 9),
        ("history", False, True, 3),
    ]
    assert [check for check in result.checks if not check.passed] == []
    assert values(result)["right"] == 10
    assert values(result)["points"] == pytest.approx(100)
    assert values(result)["supported"] == 10
    assert {metric.unit for metric in result.metrics if metric.key == "right"} == {"of 10"}
    assert any("SHA-256" in note and "video-time" in note for note in result.notes)
    assert sum("tools" in body for body in bodies) == 1


def test_a_server_that_guesses() -> None:
    guess = '{"shape": "circle", "second": 7, "lines": [], "circles": 99, "first": 1, "code": "AA-2222A"}'
    result, _ = measured(lambda number, body: reply_script(Reply(guess), size=200))
    assert values(result)["right"] == 0
    assert values(result)["points"] < 15
    assert values(result)["supported"] == 10


def test_a_server_without_videos() -> None:
    def answer(number: int, body: dict[str, Any]) -> Script:
        if "video_url" in kinds(body):
            return Refusal(400, "video_url is not known")
        return knowing(number, body)

    result, bodies = measured(answer)
    assert values(result)["right"] == 8
    assert values(result)["supported"] == 8
    assert not any("video_url" in kinds(body) for body in bodies)
    assert any("takes no videos" in note and "video_url is not known" in note for note in result.notes)
    assert not any("takes no images" in note for note in result.notes)


def test_a_blind_server_gets_two_requests_and_no_storm() -> None:
    sent: list[set[str]] = []

    def answer(number: int, body: dict[str, Any]) -> Script:
        if kinds(body):
            sent.append(kinds(body))
            return Refusal(400, "only text")
        return reply_script(Reply("yes"))

    result, bodies = measured(answer)
    assert not bodies
    assert len(sent) == 2
    assert values(result) == {"right": 0, "supported": 0}
    assert not result.checks


def test_some_scenarios_only() -> None:
    result, bodies = measured(knowing, scenarios=["text", "chart"])
    assert len(bodies) == 2
    assert {metric.unit for metric in result.metrics if metric.key == "supported"} == {"of 2"}
    with pytest.raises(BenchError, match="there is no scenario 'x'; the scenarios are text,"):
        read_workload("media", {"scenarios": ["x"]})


def test_without_pillow_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    kept, real = (
        {n: m for n, m in sys.modules.items() if n.startswith("penny_bench.cases.media.")},
        builtins.__import__,
    )

    def without(name: str, *rest: Any) -> Any:
        if name.partition(".")[0] == "PIL":
            raise ModuleNotFoundError("No module named 'PIL'", name="PIL")
        return real(name, *rest)

    for name in kept:
        if name.rpartition(".")[2] in ("scenarios", "draw", "pictures", "talks", "videos", "film"):
            monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(
        BenchError, match=r"PIL is not installed. Install both with pip install 'penny-bench\[media\]'"
    ):
        measured(lambda number, body: reply_script(Reply("yes")))
    monkeypatch.undo()
    assert importlib.import_module("penny_bench.cases.media.scenarios")
