"""Tool cases: their data against the calendar and arithmetic, the judges, and whole runs against the mock."""

import json
from datetime import date, datetime
from decimal import Decimal
from typing import Any

import jsonschema
import pytest

from penny_bench.cases.tools import (
    CALLS,
    EXACT,
    LITERAL,
    QUOTED,
    SEMANTIC,
    Expect,
    Invocation,
    ToolCase,
    outcomes,
    protocol_checks,
)
from penny_bench.cases.tools.compare import literally, parameters, same, typed
from penny_bench.client import Reply, StreamRecord, ToolCall

ALL = [*CALLS, *QUOTED]
INVOCATIONS = [(case, wanted) for case in ALL for wanted in case.invocations]


def named(number: str) -> ToolCase:
    return next(case for case in ALL if case.name.startswith(number))


def right(wanted: Invocation, first: int = 0) -> Reply:
    """The reply that was due, with ids from `first` on."""
    if not wanted.calls:
        return Reply(wanted.literal)
    return Reply(
        tool_calls=tuple(
            ToolCall(call.name, json.dumps(call.arguments), f"c{first + place}")
            for place, call in enumerate(wanted.calls)
        )
    )


def judged(wanted: Invocation, reply: Reply, case: ToolCase) -> tuple[bool | None, ...]:
    """Literal, exact, semantic."""
    found = {check.name: check.passed for check in outcomes(case.name, wanted, reply, case.tools)}
    return found[LITERAL], found[EXACT], found[SEMANTIC]


# ---- the data


def test_the_suites_have_their_size() -> None:
    assert len(CALLS) == 18  # 15a to 15c are one case: 16
    assert len({case.name.split()[0].rstrip("abc") for case in CALLS}) == 16
    assert sum(len(case.invocations) for case in CALLS) == 30
    assert len(QUOTED) == 10
    assert sum(case.together for case in CALLS) == 3
    assert len({case.name for case in ALL}) == len(ALL)


@pytest.mark.parametrize("case", ALL, ids=lambda case: case.name)
def test_every_due_call_fits_the_schema_of_its_tool(case: ToolCase) -> None:
    for offered in case.tools:
        jsonschema.Draft202012Validator.check_schema(offered["function"]["parameters"])
    for wanted in case.invocations:
        for call in wanted.calls:
            schema = parameters(case.tools, call.name)
            assert schema is not None
            for arguments in (call.arguments, *call.variants):
                jsonschema.validate(arguments, schema, jsonschema.Draft202012Validator)
    for message in case.history:
        for made in message.get("tool_calls", ()):
            schema = parameters(case.tools, made["function"]["name"])
            jsonschema.validate(json.loads(made["function"]["arguments"]), schema)


@pytest.mark.parametrize(("case", "wanted"), INVOCATIONS, ids=lambda x: getattr(x, "name", ""))
def test_the_due_reply_is_right_in_all_three_ways(case: ToolCase, wanted: Invocation) -> None:
    assert judged(wanted, right(wanted), case) == (True, True, True)


@pytest.mark.parametrize(("case", "wanted"), INVOCATIONS, ids=lambda x: getattr(x, "name", ""))
def test_wrong_replies_are_wrong_in_all_three_ways(case: ToolCase, wanted: Invocation) -> None:
    stray = ToolCall(case.tools[-1]["function"]["name"], "{}", "x")
    assert judged(wanted, Reply("I would rather not."), case)[2] is False
    if wanted.calls:
        due = right(wanted)
        assert judged(wanted, Reply("I would rather not."), case) == (False, False, False)
        assert judged(wanted, Reply(tool_calls=(*due.tool_calls, due.tool_calls[0])), case) == (False,) * 3
        broken = ToolCall(due.tool_calls[0].name, due.tool_calls[0].arguments[:-1], "c0")
        assert judged(wanted, Reply(tool_calls=(broken, *due.tool_calls[1:])), case) == (False,) * 3
        for key, value in wanted.calls[0].arguments.items():
            other = {**wanted.calls[0].arguments, key: f"{value} or so"}
            changed = ToolCall(wanted.calls[0].name, json.dumps(other), "c0")
            assert judged(wanted, Reply(tool_calls=(changed, *due.tool_calls[1:])), case) == (False,) * 3
    else:
        assert judged(wanted, Reply(wanted.literal, tool_calls=(stray,)), case) == (False,) * 3


def test_the_answers_follow_from_what_the_tools_say() -> None:
    invoices = json.loads(named("08").invocations[1].calls[0].result, parse_float=Decimal)["invoices"]
    assert str(sum(entry["amount"] for entry in invoices)) == named("08").invocations[2].literal
    product = named("12").invocations[0].calls[0]
    assert json.loads(product.result)["result"] == 48271 * 9173 == int(named("12").invocations[1].literal)
    agents = named("13").invocations
    assert sum(json.loads(call.result)["findings"] for call in agents[0].calls) == int(agents[1].literal)
    with pytest.raises(ValueError, match="day"):
        date(2031, 11, 31)
    until = named("03").invocations[0].calls[0].arguments["until"]
    assert datetime.fromisoformat(until) == datetime.fromisoformat("2031-05-04T07:00:00+00:00")
    assert named("04").invocations[1].calls[0].arguments["date"] == date(2031, 6, 14).isoformat()
    bridge = named("16").invocations
    learnt = json.loads(bridge[0].calls[0].result)["tools"][0]
    jsonschema.validate(bridge[1].calls[0].arguments["arguments"], learnt["schema"])
    assert bridge[1].calls[0].arguments["name"] == learnt["name"]


@pytest.mark.parametrize("case", QUOTED, ids=lambda case: case.name)
def test_the_user_gives_the_quoted_text_to_the_byte(case: ToolCase) -> None:
    wanted = case.invocations[0]
    assert wanted.user is not None
    texts = [v for call in wanted.calls for k, v in call.arguments.items() if k != "path"] or [wanted.literal]
    for quoted in texts:
        assert quoted in wanted.user
        assert quoted == quoted.strip("\n")  # else nobody could tell where it ends
    markup = ("tool_call>", "<function=", "<parameter=", "</parameter>", "think>")
    assert any(mark in quoted for quoted in texts for mark in markup)


# ---- values


def test_values_are_compared_by_three_measures() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer"}, "on": {"type": "boolean"}}}
    assert typed({"n": "4", "on": "true"}, schema) == {"n": 4, "on": True}
    assert typed({"n": "four", "on": "1"}, schema) == {"n": "four", "on": "1"}
    assert typed("[1, 2]", {"type": "array", "items": {"type": "integer"}}) == [1, 2]
    maybe = {"type": ["integer", "null"]}
    assert (typed("null", maybe), typed("30", maybe), typed("true", maybe)) == (None, 30, "true")
    assert typed("null", {"type": ["string", "null"]}) == "null"
    assert typed("007", {"type": "string"}) == "007"
    assert same({"a": [1, 2.0]}, {"a": [1.0, 2]})
    assert not same(1, True)
    assert not same("1", 1)
    assert literally({"a": 1, "b": 2}, {"b": 2, "a": 1})
    assert not literally(4, 4.0)


def test_the_three_outcomes_differ_where_they_should() -> None:
    case = named("04")
    wanted = case.invocations[1]
    due = dict(wanted.calls[0].arguments)

    def said(arguments: dict[str, Any], words: str = "") -> tuple[bool | None, ...]:
        return judged(
            wanted, Reply(words, tool_calls=(ToolCall("book_table", json.dumps(arguments), "a"),)), case
        )

    assert said(due) == (True, True, True)
    assert said(due, "Booking it.") == (False, True, True)  # words beside the call
    assert said({**due, "guests": 4.0}) == (False, True, True)  # equal as JSON, but not to the byte
    assert said({**due, "guests": "4"}) == (False, True, True)  # text, which the schema makes a number
    assert said({**due, "time": "19:30:00"}) == (False, False, True)  # another way to say it
    assert said({**due, "time": "07:30"}) == (False, False, False)
    assert said({**due, "window": True}) == (False, False, False)
    assert judged(case.invocations[0], Reply("At what time would you like to come?"), case) == (
        False,
        True,
        True,
    )
    assert judged(case.invocations[0], Reply("Your table is booked, at that time."), case) == (
        False,
        True,
        False,
    )


def test_order_counts_only_where_it_was_asked_for() -> None:
    case = named("13")
    wanted = case.invocations[0]
    turned = Reply(tool_calls=right(wanted).tool_calls[::-1])
    assert judged(wanted, turned, case) == (False, True, True)
    strict = Invocation(wanted.user, wanted.calls, ordered=True)
    assert judged(strict, turned, case) == (False, False, False)


def test_defaults_may_be_left_out() -> None:
    case = ToolCase("x", "", named("02").tools, ())
    wanted = Invocation("", (Expect("get_weather", {"city": "Oslo"}, defaults={"unit": "celsius"}),))
    for arguments, fits in (({"city": "Oslo"}, True), ({"city": "oslo", "unit": "celsius"}, True)):
        call = ToolCall("get_weather", json.dumps(arguments), "a")
        assert judged(wanted, Reply(tool_calls=(call,)), case)[2] is fits
    call = ToolCall("get_weather", '{"city": "Oslo", "unit": "fahrenheit"}', "a")
    assert judged(wanted, Reply(tool_calls=(call,)), case)[2] is False


@pytest.mark.parametrize("case", QUOTED, ids=lambda case: case.name)
def test_a_swallowed_byte_is_seen(case: ToolCase) -> None:
    wanted = case.invocations[0]
    if not wanted.calls:
        cut = Reply(wanted.literal.replace("</tool_call>", "").replace("</think>", ""))
        assert judged(wanted, cut, case) == (False, True, False)
        return
    for key in wanted.calls[0].arguments:
        value = str(wanted.calls[0].arguments[key])
        for wrong in (value.split("<")[0] if "<" in value else value[:-1], value + " ", value.upper()):
            arguments = json.dumps({**wanted.calls[0].arguments, key: wrong})
            calls = (ToolCall(wanted.calls[0].name, arguments, "a"), *right(wanted).tool_calls[1:])
            assert judged(wanted, Reply(tool_calls=calls), case)[:2] == (False, False)
    key = "content" if "content" in wanted.calls[0].arguments else "new"
    value = wanted.calls[0].arguments[key]
    for written, fits in (
        (value + "\n", True),
        (value.replace(value.split("\n")[0], "x", 1), False),
        (value[2:], False),
    ):
        arguments = json.dumps({**wanted.calls[0].arguments, key: written})
        calls = (ToolCall(wanted.calls[0].name, arguments, "a"), *right(wanted).tool_calls[1:])
        assert judged(wanted, Reply(tool_calls=calls), case) == (False, False, fits)


# ---- the protocol

OK = ToolCall("get_weather", '{"city": "Oslo", "unit": "celsius"}', "a")


def protocol(finish: str, content: str, *calls: ToolCall, quotes: bool = False) -> list[str]:
    """Names of the checks that failed."""
    record = StreamRecord(sent=0, ended=1, finish_reason=finish, reply=Reply(content, "", calls))
    checks = protocol_checks("x", record, named("02").tools, {"old"}, quotes)
    assert all(check.detail for check in checks if not check.passed)
    return [check.name for check in checks if not check.passed]


def test_protocol_checks() -> None:
    assert protocol("tool_calls", "", OK) == []
    assert protocol("stop", "Fine.") == []
    assert protocol("length", "Fi") == []
    assert protocol("length", "", OK) == []
    assert protocol("stop", "", OK) == ["finish_reason fits"]
    assert protocol("tool_calls", "Fine.") == ["finish_reason fits"]
    assert protocol("tool_calls", "", OK, OK) == ["ids of calls are unique"]
    assert protocol("tool_calls", "", ToolCall(OK.name, OK.arguments, "old")) == ["ids of calls are unique"]
    assert protocol("tool_calls", "", ToolCall(OK.name, OK.arguments, "")) == ["ids of calls are unique"]
    schema = "calls fit the schemas of the tools"
    assert protocol("tool_calls", "", ToolCall("get_weather", '{"city": "Oslo"}', "a")) == [schema]
    assert protocol("tool_calls", "", ToolCall("get_wether", OK.arguments, "a")) == [schema]
    for text in ('{"city": "Oslo", "unit": "celsius"', "[1]", '{"city": NaN}'):
        found = protocol("tool_calls", "", ToolCall("get_weather", text, "a"))
        assert found == ["arguments are JSON objects", schema]
    for mark in (
        "<tool_call>",
        "</tool_call>",
        "<function=f>",
        "</parameter>",
        "<think>",
        "</think>",
        "<|im_end|>",
    ):
        assert protocol("stop", f"So {mark} it is") == ["no markup in the content"]
        assert protocol("stop", f"So {mark} it is", quotes=True) == []
