"""Whole runs of the tool cases against a mock that plays models: always right, always wrong, and odd ones."""

import asyncio
import json
from collections import Counter
from typing import Any

import pytest

from penny_bench.cases.tools import CALLS, QUOTED, SEMANTIC, Invocation, ToolCase, assistant_message
from penny_bench.client import Reply, Server, ToolCall
from penny_bench.mock import MockServer, Refusal, Script, token_script
from penny_bench.mock.reply import reply_script
from penny_bench.workload import WorkloadResult, measure_workload, read_workload


def right(wanted: Invocation) -> Reply:
    """The reply that was due; the mock gives the ids."""
    calls = tuple(ToolCall(call.name, json.dumps(call.arguments)) for call in wanted.calls)
    return Reply("" if calls else wanted.literal, tool_calls=calls)


class Model:
    """Answers each request of a suite as a function of its invocation says; tells invocations by their messages."""

    def __init__(self, cases: tuple[ToolCase, ...], say: Any) -> None:
        self.say = say
        self.cases = cases
        self.ids = 0

    def __call__(self, number: int, body: dict[str, Any]) -> Script:
        if "tools" not in body:
            return token_script(tokens=2)
        case, turn = self.find(body["messages"])
        reply = self.say(case, turn, case.invocations[turn])
        if isinstance(reply, Refusal):
            return reply
        calls = []
        for call in reply.tool_calls:
            self.ids += 1
            calls.append(ToolCall(call.name, call.arguments, f"id-{self.ids}"))
        return reply_script(Reply(reply.content, reply.reasoning, tuple(calls)))

    def find(self, messages: list[dict[str, Any]]) -> tuple[ToolCase, int]:
        said = [message["content"] for message in messages if message["role"] == "user"]
        for case in self.cases:
            users = [m["content"] for m in case.history if m["role"] == "user"]
            users += [wanted.user for wanted in case.invocations if wanted.user]
            if said == users[: len(said)]:
                old = sum(m["role"] == "assistant" for m in case.history)
                return case, sum(m["role"] == "assistant" for m in messages) - old
        raise AssertionError(f"no case begins with {said}")


def measure(name: str, say: Any, **changed: Any) -> tuple[WorkloadResult, list[dict[str, Any]]]:
    async def go() -> tuple[WorkloadResult, list[dict[str, Any]]]:
        workload = read_workload(name, {"long_tokens": 600, **changed})
        cases = QUOTED if workload.settings.suite == "quoted" else CALLS  # type: ignore[attr-defined]
        async with MockServer(Model(cases, say)).start() as mock:
            server = await Server.connect(mock.url)
            result = await measure_workload(server, workload, seed=3)
            return result, [body for body in mock.bodies if "tools" in body]

    return asyncio.run(go())


def metrics(result: WorkloadResult) -> dict[str, str]:
    return {metric.key: f"{metric.value:g} {metric.unit}" for metric in result.metrics}


@pytest.mark.parametrize(("name", "total"), [("tools", 30), ("tools-quoted", 10)])
def test_a_model_that_is_always_right(name: str, total: int) -> None:
    result, bodies = measure(name, lambda case, turn, wanted: right(wanted))
    found = metrics(result)
    assert {found[key] for key in ("literal", "exact_calls", "semantic", "protocol")} == {
        f"{total:g} of {total}"
    }
    assert all(check.passed for check in result.checks)
    assert sum(check.points for check in result.checks) == sum(check.of for check in result.checks) == total
    assert len(bodies) == total


@pytest.mark.parametrize(("name", "total"), [("tools", 30), ("tools-quoted", 10)])
def test_a_model_that_is_always_wrong_is_asked_everything(name: str, total: int) -> None:
    result, bodies = measure(name, lambda case, turn, wanted: Reply("No. </tool_call>"))
    found = metrics(result)
    words = sum(not w.calls for case in (QUOTED if total == 10 else CALLS) for w in case.invocations)
    assert (found["literal"], found["semantic"]) == (f"0 of {total}", f"0 of {total}")
    assert found["exact_calls"] == f"{words} of {total}"  # where no call was due, none was made
    assert found["protocol"] == ("10 of 10" if total == 10 else "0 of 30")
    assert len(bodies) == total
    # Each later request holds the turns that were due, with their results.
    chain = [body["messages"] for body in bodies if "mara.lind" in str(body["messages"])]
    assert [len(messages) for messages in chain] in ([1, 3, 5], [])
    if chain:
        assert chain[2][2] == {
            "role": "tool",
            "tool_call_id": "call_1_0",
            "content": '{"customer": "C-70418"}',
        }


def test_right_turns_stay_in_the_history_as_the_model_made_them() -> None:
    def say(case: ToolCase, turn: int, wanted: Invocation) -> Reply:
        reply = right(wanted)
        return Reply(reply.content or "Let me see.", "hm", reply.tool_calls)

    result, bodies = measure("tools", say, cases=["13"])
    assert metrics(result)["exact_calls"] == "2 of 2"
    assert metrics(result)["literal"] == "1 of 2"
    _, own, first, second = bodies[1]["messages"]
    assert (own["content"], own["reasoning_content"]) == ("Let me see.", "hm")
    assert [call["id"] for call in own["tool_calls"]] == ["id-1", "id-2"]
    assert first == {"role": "tool", "tool_call_id": "id-1", "content": '{"agent": 1, "findings": 4}'}
    assert second == {"role": "tool", "tool_call_id": "id-2", "content": '{"agent": 2, "findings": 9}'}


def test_arguments_that_are_no_json_do_not_come_back() -> None:
    calls = (ToolCall("a", "", "1"), ToolCall("b", '{"x": 1', "2"), ToolCall("c", '{"x":  1}', "3"))
    sent = assistant_message(Reply("", "", calls))["tool_calls"]
    assert [call["function"]["arguments"] for call in sent] == ["{}", "{}", '{"x":  1}']


def test_results_follow_the_calls_if_the_model_turns_them_round() -> None:
    def say(case: ToolCase, turn: int, wanted: Invocation) -> Reply:
        return Reply(wanted.literal, tool_calls=right(wanted).tool_calls[::-1])

    _, bodies = measure("tools", say, cases=["13"])
    assert [message["content"] for message in bodies[1]["messages"][2:]] == [
        '{"agent": 2, "findings": 9}',
        '{"agent": 1, "findings": 4}',
    ]


def test_an_error_of_the_server_costs_its_invocation_only() -> None:
    def say(case: ToolCase, turn: int, wanted: Invocation) -> Reply | Refusal:
        return Refusal(500, "out of luck") if case.name.startswith("08") and turn == 1 else right(wanted)

    result, bodies = measure("tools", say)
    assert len(bodies) == 30
    found = metrics(result)
    assert (found["semantic"], found["protocol"]) == ("29 of 30", "29 of 30")
    failed = [check for check in result.checks if not check.passed]
    assert [(check.case, check.name) for check in failed] == [("08 dependency", "the request succeeds")]


def test_phases_settings_and_the_long_history() -> None:
    result, bodies = measure("tools", lambda case, turn, wanted: right(wanted), effort="high")
    assert [(phase.name, phase.streams, len(phase.requests)) for phase in result.phases] == [
        ("one", 1, 27),
        ("together", 3, 3),
    ]
    assert {body["reasoning_effort"] for body in bodies} == {"high"}
    pages = [m["content"] for body in bodies for m in body["messages"] if "log book.\n\n" in m["content"]]
    assert len(pages) == 3
    assert all("{filler}" not in page and "Continue this text" not in page for page in pages)
    # On the mock, a passage of 100 tokens has at least the 100 characters of the sparest language.
    assert all(len(page) > 250 for page in pages)
    assert Counter(check.name for check in result.checks)[SEMANTIC] == 30
    with pytest.raises(Exception, match="there is no case '99'"):
        read_workload("tools", {"cases": ["99"]})
