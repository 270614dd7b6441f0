"""Structured output: the schemas, the judge, and runs with and without a server that keeps to schemas."""

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from penny_bench.cases.structured import SYNTAX, VALID, SchemaCase, schema_cases, structure_checks
from penny_bench.client import Reply, Server, StreamRecord
from penny_bench.mock import MockServer, Refusal, Script, Step, token_script
from penny_bench.mock.reply import reply_script
from penny_bench.workload import WorkloadResult, measure_workload, read_workload

RIGHT: dict[str, Any] = {
    "deep": {
        "building": {
            "name": "Mill",
            "floor": {
                "level": -1,
                "corridor": {"side": "north", "room": {"number": 3, "board": {"hook": 30}}},
            },
        }
    },
    "enum": {"area": "room", "urgency": "high", "room": 412, "refund": False, "minutes": 20},
    "long": {"throws": [1, 2, 3, 4, 5, 6] * 10},
    "nested": {
        "day": "weekday",
        "lines": [
            {"number": 1, "stops": [{"name": "A", "minute": 0}, {"name": "B", "minute": 59}]},
            {"number": 99, "stops": [{"name": "C", "minute": 7}] * 4},
        ],
    },
    "pattern": {"code": "ABC-0001", "day": "2031-12-31", "colour": "#00ff9a", "weight": "12.50 kg"},
    "unicode": {"名前": "お好み焼き", "goût": "مُرّ", "zutaten_🥕": ["キャベツ", "卵", "粉"]},
    "union": {"payment": {"kind": "card", "last_digits": "0420"}, "remark": None},
}
WRONG: dict[str, list[tuple[list[Any], Any]]] = {
    "deep": [
        (["building", "floor", "corridor", "room", "board", "hook"], 31),
        (["building", "floor", "level"], 1.5),
    ],
    "enum": [(["area"], "bar"), (["room"], "412"), (["refund"], 0), (["minutes"], -1), (["also"], 1)],
    "long": [(["throws"], [1] * 59), (["throws"], [1] * 61), (["throws", 59], 7)],
    "nested": [(["lines", 0, "stops"], []), (["lines", 1, "stops", 3, "minute"], 60), (["lines"], [])],
    "pattern": [
        (["code"], "ABC-001"),
        (["day"], "2031-13-01"),
        (["colour"], "#00FF9A"),
        (["weight"], "2.5 kg"),
    ],
    "unicode": [(["goût"], "sus"), (["名前"], ""), (["zutaten_🥕", 0], "x" * 17)],
    "union": [
        (["payment"], {"kind": "card", "coins": [1]}),
        (["payment", "last_digits"], "420"),
        (["remark"], 0),
    ],
}


def case(name: str) -> SchemaCase:
    return next(found for found in schema_cases() if found.name == name)


def test_the_schemas_are_closed_bounded_and_not_recursive() -> None:
    assert [found.name for found in schema_cases()] == sorted(RIGHT)
    for found in schema_cases():
        jsonschema.Draft202012Validator.check_schema(found.schema)
        assert "$ref" not in json.dumps(found.schema)
        for part in parts(found.schema):
            if part.get("type") == "object":
                assert part["additionalProperties"] is False
                assert part["required"] == list(part["properties"])  # what strict modes ask for
            if part.get("type") == "array":
                assert "maxItems" in part
            if part.get("type") == "string":
                assert "maxLength" in part or re.fullmatch(r"\^.*\$", part["pattern"])


def parts(schema: Any) -> list[dict[str, Any]]:
    if isinstance(schema, list):
        return [part for inner in schema for part in parts(inner)]
    if isinstance(schema, dict):
        return [schema, *(part for inner in schema.values() for part in parts(inner))]
    return []


def judged(name: str, text: str, strict: bool = True, finish: str = "stop") -> dict[str, bool | None]:
    record = StreamRecord(
        sent=0, ended=1, finish_reason=finish, output_tokens=9, reply=Reply(text, "thought")
    )
    return {check.name: check.passed for check in structure_checks(case(name), record, strict)}


@pytest.mark.parametrize("name", RIGHT)
def test_right_replies_are_right(name: str) -> None:
    for text in (json.dumps(RIGHT[name]), json.dumps(RIGHT[name], ensure_ascii=False, indent=1) + "\n"):
        assert judged(name, text) == {SYNTAX: True, VALID: True}


@pytest.mark.parametrize(("name", "path", "value"), [(n, p, v) for n, all_ in WRONG.items() for p, v in all_])
def test_wrong_values_do_not_fit(name: str, path: list[Any], value: Any) -> None:
    changed = json.loads(json.dumps(RIGHT[name]))
    inner = changed
    for key in path[:-1]:
        inner = inner[key]
    inner[path[-1]] = value
    assert judged(name, json.dumps(changed)) == {SYNTAX: True, VALID: False}


def test_only_one_json_object_is_one() -> None:
    good = json.dumps(RIGHT["enum"])
    for text in (
        "",
        good[:-1],
        f"Here: {good}",
        f"```json\n{good}\n```",
        good + good,
        '{"room": NaN}',
        "[1]",
        "3",
    ):
        assert judged("enum", text) == {SYNTAX: False, VALID: False}
    record = StreamRecord(sent=0, ended=1, finish_reason="length", output_tokens=77, reply=Reply("{"))
    assert "It was cut off after 77 tokens." in structure_checks(case("enum"), record, True)[0].detail


def test_points_are_for_what_the_server_promised() -> None:
    record = StreamRecord(sent=0, ended=1, finish_reason="stop", reply=Reply('{"other": 1}'))
    strict = structure_checks(case("enum"), record, True)
    loose = structure_checks(case("enum"), record, False)
    assert [(check.points, check.of) for check in strict] == [(0, 0), (0, 1)]
    assert [(check.points, check.of) for check in loose] == [(1, 1), (0, 0)]


# ---- whole runs


def measure(
    answer: Callable[[dict[str, Any]], Script], **changed: Any
) -> tuple[WorkloadResult, list[dict[str, Any]]]:
    async def go() -> tuple[WorkloadResult, list[dict[str, Any]]]:
        def play(number: int, body: dict[str, Any]) -> Script:
            return answer(body) if "JSON Schema" in body["messages"][0]["content"] else token_script(tokens=2)

        async with MockServer(play).start() as mock:
            server = await Server.connect(mock.url)
            result = await measure_workload(server, read_workload("structured", changed), seed=5)
            return result, [b for b in mock.bodies if "JSON Schema" in b["messages"][0]["content"]]

    return asyncio.run(go())


def asked(body: dict[str, Any]) -> str:
    return next(c.name for c in schema_cases() if c.prompt in body["messages"][0]["content"])


def late(script: Script, seconds: float) -> Script:
    assert isinstance(script, list)
    return [Step(seconds, b": wait\n\n"), *script]


def numbers(result: WorkloadResult) -> dict[tuple[str | None, str], float]:
    return {(metric.phase, metric.key): metric.value for metric in result.metrics}


def test_a_server_that_keeps_to_schemas_and_pays_for_new_ones() -> None:
    seen = set()

    def answer(body: dict[str, Any]) -> Script:
        script = reply_script(Reply(json.dumps(RIGHT[asked(body)])))
        form = body.get("response_format", {})
        text = json.dumps(form)
        wait = 0.12 if form.get("type") == "json_schema" and text not in seen else 0.0
        seen.add(text)
        return late(script, wait)

    result, bodies = measure(answer, runs=1)
    found = numbers(result)
    assert [len(phase.requests) for phase in result.phases] == [2, 7, 7, 7, 7, 7]
    assert all(found[phase, "valid"] == 1 for phase in ("new", "known", "object", "together"))
    assert all(found[phase, "refused"] == 0 for phase in ("new", "known", "object", "together"))
    # A wait of 120 ms before the first token of a new schema, none after; 60 ms are allowed for the machine.
    assert found["new", "ttft_extra"] == pytest.approx(0.12, abs=0.06)
    assert found["known", "ttft_extra"] == pytest.approx(0, abs=0.06)
    prompts = [body["messages"][0]["content"] for body in bodies]
    assert len(set(prompts)) == len(prompts)  # none can be cached
    assert (
        len({prompt.split("\n\n", 1)[1] for prompt in prompts}) == 7
    )  # but for the first line they are alike
    schemas = [
        json.dumps(b["response_format"]) for b in bodies if b.get("response_format", {}).get("json_schema")
    ]
    assert len(schemas) == 21
    assert len(set(schemas)) == 7


def test_a_server_that_ignores_schemas() -> None:
    result, _ = measure(lambda body: reply_script(Reply('{"no": 1}')), runs=1, streams=2)
    found = numbers(result)
    assert [found[phase, "valid"] for phase in ("new", "known", "object", "together")] == [0, 0, 1, 0]
    assert sum(check.points for check in result.checks) == 7
    assert sum(check.of for check in result.checks) == 28


def test_a_refusal_is_no_invalid_reply() -> None:
    def answer(body: dict[str, Any]) -> Script:
        if body.get("response_format", {}).get("type") == "json_schema" and asked(body) != "enum":
            return Refusal(400, "json_schema is not supported")
        if asked(body) == "deep" and "response_format" in body:
            return Refusal(503, "busy")  # no refusal of the format
        return reply_script(Reply(json.dumps(RIGHT[asked(body)])))

    result, _ = measure(answer, runs=1, streams=0)
    found = numbers(result)
    assert (found["new", "refused"], found["new", "valid"]) == (6, 1)
    assert (found["object", "refused"], found["object", "valid"]) == (0, pytest.approx(6 / 7))
    failed = [(check.case, check.name) for check in result.checks if not check.passed]
    assert failed.count(("deep", "the response_format is taken")) == 2
    assert failed.count(("deep", "the request succeeds")) == 1
    assert len(failed) == 13
    assert [note for note in result.notes if "json_schema" in note]


def test_a_reply_that_was_cut_off_is_no_invalid_one() -> None:
    def answer(body: dict[str, Any]) -> Script:
        whole = json.dumps(RIGHT[asked(body)])
        if asked(body) in ("long", "deep"):
            return reply_script(Reply(whole[: len(whole) // 2]), finish="length")
        return reply_script(Reply(whole))

    result, _ = measure(answer, runs=1, streams=0)
    found = numbers(result)
    assert (found["new", "valid"], found["new", "cut"], found["new", "refused"]) == (1, 2, 0)
    assert all("It was cut off" in check.detail for check in result.checks if not check.passed)


def test_settings() -> None:
    _, bodies = measure(lambda body: reply_script(Reply("{}")), cases=["enum"], runs=2, tokens=9)
    assert len(bodies) == 2 * 5
    assert {body["max_tokens"] for body in bodies} == {9}
    assert {asked(body) for body in bodies} == {"enum"}
    with pytest.raises(Exception, match="there is no case 'x'"):
        read_workload("structured", {"cases": ["x"]})
