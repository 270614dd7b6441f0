"""Agent control: the worlds, and runs of models that do a task rightly, twice, wrongly, or not at all."""

import asyncio
import json
from collections.abc import Callable
from typing import Any

import jsonschema
import pytest

from penny_bench.cases.agent import WORLDS, Files, Shop
from penny_bench.client import Reply, Server, ToolCall
from penny_bench.mock import MockServer, Refusal, Script, token_script
from penny_bench.mock.reply import reply_script
from penny_bench.workload import WorkloadResult, measure_workload, read_workload

Step = tuple[str, dict[str, Any]]

CONFIG = '# oven\nname = "east"\nlimit = 240\n\n[alarm]\nlimit = 275\nto = "desk"\n'
SHOP: list[Step] = [
    ("get_order", {"order": 5120}),
    ("check_stock", {"item": "BOLT-9"}),
    ("reserve", {"order": 5120, "item": "BOLT-9", "pieces": 6}),
    ("ship", {"order": 5120}),
    ("tell_customer", {"customer": "K-331", "parcel": "PX-80417"}),
]
FILES: list[Step] = [
    ("list_folder", {"folder": "inbox"}),
    ("read_file", {"path": "inbox/request-31.txt"}),
    ("read_file", {"path": "oven.toml"}),
    ("write_file", {"path": "oven.toml", "content": CONFIG}),
    ("move_file", {"path": "inbox/request-31.txt", "to": "done/request-31.txt"}),
]


@pytest.mark.parametrize("name", WORLDS)
def test_the_schemas_are_schemas_and_the_task_begins_undone(name: str) -> None:
    world = WORLDS[name]()
    for offered in world.tools:
        jsonschema.Draft202012Validator.check_schema(offered["function"]["parameters"])
    assert world.changing <= {offered["function"]["name"] for offered in world.tools}
    assert world.missing()
    assert world.repeated() == ""


@pytest.mark.parametrize(("name", "steps"), [("shop", SHOP), ("files", FILES)])
def test_the_way_of_five_calls_does_the_task_and_each_of_its_changes_is_needed(
    name: str, steps: list[Step]
) -> None:
    world = WORLDS[name]()
    assert len(steps) == world.calls == 5
    results = [world.call(*step) for step in steps]
    assert all("error" not in json.loads(result) for result in results)
    assert world.missing() == ""
    assert world.repeated() == ""
    assert len(world.changes) == sum(step[0] in world.changing for step in steps)
    for left in steps:
        if left[0] in world.changing:
            other = WORLDS[name]()
            for step in steps:
                if step != left:
                    other.call(*step)
            assert other.missing()


def test_the_answers_come_from_the_worlds() -> None:
    shop, files = Shop(), Files()
    found = [json.loads(shop.call(*step)) for step in SHOP]
    assert found[0] == {"order": 5120, "customer": "K-331", "item": "BOLT-9", "pieces": 6, "state": "waiting"}
    assert found[1]["pieces"] == 14
    assert found[2] == {"reserved": 6, "left": 8}
    assert found[3] == {"parcel": shop.answer}
    read = [json.loads(files.call(*step)) for step in FILES[:3]]
    assert read[0] == {"files": ["request-31.txt"]}
    assert files.answer in read[1]["content"]
    assert read[2]["content"].replace("260", files.answer) == CONFIG
    assert json.loads(files.call("list_folder", {"folder": "."})) == {"files": ["oven.toml"]}


@pytest.mark.parametrize(
    ("world", "step", "error"),
    [
        (Shop(), ("ship", {"order": 5120}), "the pieces of the order are not reserved"),
        (Shop(), ("ship", {"order": 5121}), "there is no order 5121"),
        (
            Shop(),
            ("reserve", {"order": 5120, "item": "BOLT-6", "pieces": 6}),
            "2 pieces of BOLT-6 lie on the shelf",
        ),
        (Shop(), ("check_stock", {"item": "NUT"}), "there is no item NUT"),
        (Shop(), ("fly", {}), "there is no tool fly"),
        (Shop(), ("ship", None), "wrong arguments: None is not of type 'object'"),
        (Shop(), ("ship", {}), "wrong arguments: 'order' is a required property"),
        (Files(), ("read_file", {"path": "x"}), "there is no file x"),
        (
            Files(),
            ("move_file", {"path": "oven.toml", "to": "oven.toml"}),
            "there is already a file oven.toml",
        ),
    ],
)
def test_a_world_refuses_and_stays_as_it_was(world: Any, step: Step, error: str) -> None:
    before = world.missing()
    assert json.loads(world.call(*step)) == {"error": error}
    assert (world.missing(), world.changes) == (before, [])


def test_changes_that_no_task_wants_are_seen() -> None:
    shop, files = Shop(), Files()
    for step in (*SHOP, ("tell_customer", {"customer": "K-331", "parcel": "PX-80417"})):
        shop.call(*step)
    assert shop.repeated().startswith("tell_customer was carried out 2 times")
    assert "told is" in shop.missing()
    for step in (*FILES, ("delete_file", {"path": "done/request-31.txt"})):
        files.call(*step)
    assert files.repeated() == ""
    assert "done/request-31.txt is None" in files.missing()
    other = Files()
    for step in FILES[:3]:
        other.call(*step)
    other.call("write_file", {"path": "oven.toml", "content": CONFIG.rstrip()})  # one character less
    other.call(*FILES[4])
    assert other.missing().startswith("oven.toml is")


# ---- whole runs


def measure(say: Callable[[str, int], Reply | Refusal], **changed: Any) -> WorkloadResult:
    """`say(task, turn)` is the model."""

    def answer(number: int, body: dict[str, Any]) -> Script:
        if "tools" not in body:
            return token_script(tokens=2)
        task = "shop" if "Order 5120" in body["messages"][0]["content"] else "files"
        reply = say(task, sum(message["role"] == "assistant" for message in body["messages"]))
        return reply if isinstance(reply, Refusal) else reply_script(reply)

    async def go() -> WorkloadResult:
        async with MockServer(answer).start() as mock:
            return await measure_workload(
                await Server.connect(mock.url), read_workload("agent", changed), seed=1
            )

    return asyncio.run(go())


def reply(steps: list[Step], turn: int, last: str) -> Reply:
    if turn < len(steps):
        name, arguments = steps[turn]
        return Reply(tool_calls=(ToolCall(name, json.dumps(arguments), f"id-{turn}"),))
    return Reply(last)


def failed(result: WorkloadResult) -> list[tuple[str, str]]:
    return [(check.case, check.name) for check in result.checks if not check.passed]


def numbers(result: WorkloadResult) -> dict[tuple[str | None, str], float]:
    return {(metric.phase, metric.key): metric.value for metric in result.metrics}


def test_a_model_that_does_the_tasks() -> None:
    result = measure(
        lambda task, turn: (
            reply(SHOP, turn, "PX-80417") if task == "shop" else reply(FILES, turn, "It is 275.")
        )
    )
    assert failed(result) == []
    found = numbers(result)
    assert [found[task, key] for task in ("shop", "files") for key in ("turns", "calls")] == [6, 5, 6, 5]
    assert found[None, "points"] == 8
    assert found[None, "protocol"] == 12
    first = [request.record.reply for request in result.phases[0].requests]
    assert [r.tool_calls[0].name for r in first[:-1] if r] == [step[0] for step in SHOP]


def test_a_model_that_ships_and_tells_twice() -> None:
    twice = [*SHOP, *SHOP[3:]]
    result = measure(lambda task, turn: reply(twice, turn, "PX-80417"), tasks=["shop"])
    assert failed(result) == [
        ("shop", "the world is as the task wants it"),
        ("shop", "nothing was done twice"),
        ("shop", "as few calls as needed, one a turn"),
    ]
    assert numbers(result)[None, "points"] == 1


def test_a_model_that_only_talks() -> None:
    result = measure(lambda task, turn: Reply("PX-80418 and 2750, done."))
    assert len(failed(result)) == 8
    assert numbers(result)[None, "points"] == 0
    assert numbers(result)[None, "protocol"] == 2


@pytest.mark.parametrize(
    ("words", "fits"), [("1PX-80417", False), ("PX-80417-2", False), ("*PX-80417*.", True)]
)
def test_the_answer_must_stand_by_itself(words: str, fits: bool) -> None:
    result = measure(lambda task, turn: reply(SHOP, turn, words), tasks=["shop"])
    assert (("shop", "the last reply is the answer") in failed(result)) is not fits


def test_calls_at_once_are_carried_out_but_are_not_the_way_that_was_asked_for() -> None:
    def say(task: str, turn: int) -> Reply:
        if turn == 0:
            calls = tuple(ToolCall(name, json.dumps(given), f"i{n}") for n, (name, given) in enumerate(SHOP))
            return Reply(tool_calls=calls)
        return Reply("PX-80417")

    result = measure(say, tasks=["shop"])
    assert failed(result) == [("shop", "as few calls as needed, one a turn")]
    assert result.checks[-1].detail == "5 calls were made in 2 turns; 5 in 6 do."


def test_a_model_that_never_ends_and_a_server_that_fails() -> None:
    result = measure(lambda task, turn: reply([SHOP[0]] * 99, turn, ""), tasks=["shop"], turns=3)
    assert numbers(result)["shop", "turns"] == 3
    assert ("shop", "the last reply is the answer") in failed(result)
    # Three calls with the ids id-0 to id-2: nothing wrong with the protocol.
    assert numbers(result)[None, "protocol"] == 3
    gone = measure(
        lambda task, turn: Refusal(500, "no") if turn == 2 else reply(SHOP, turn, ""), tasks=["shop"]
    )
    assert ("shop", "the request succeeds") in failed(gone)
    assert numbers(gone)["shop", "turns"] == 3
    assert numbers(gone)[None, "points"] == 0


def test_broken_arguments_are_told_to_the_model_and_kept_as_a_failed_check() -> None:
    def say(task: str, turn: int) -> Reply:
        if turn == 0:
            return Reply(tool_calls=(ToolCall("get_order", '{"order": 51', "i"),))
        return reply(SHOP, turn - 1, "PX-80417")

    result = measure(say, tasks=["shop"])
    assert [name for _, name in failed(result)] == [
        "arguments are JSON objects",
        "calls fit the schemas of the tools",
        "as few calls as needed, one a turn",
    ]
