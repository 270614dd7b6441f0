"""Needles: where records lie, and whether the judge tells right from wrong."""

from __future__ import annotations

import asyncio
import json
import re
from itertools import pairwise
from random import Random
from typing import Any

import pytest

from penny_bench.cases.needles import Record, ask_all, ask_some, draw_records, hide, read_answer, record_line
from penny_bench.client import Reply, Server
from penny_bench.mock import Refusal, Script, running
from penny_bench.mock.reply import reply_script
from penny_bench.text import Gauge, Segment, segments
from penny_bench.workload import WorkloadResult, measure_workload, read_workload

RECORDS = [Record("K-AAAA", "11-AA-22-BBB-3333", 0.2), Record("K-BBBB", "44-CC-55-DDD-6666", 0.7)]


def test_records_are_opaque_unique_and_one_in_each_slot() -> None:
    records = draw_records(64, Random(1))
    assert len({record.key for record in records}) == 64
    assert len({record.value for record in records}) == 64
    for slot, record in enumerate(records):
        assert re.fullmatch(r"K-[2-9A-Z]{4}", record.key)
        assert re.fullmatch(r"\d\d-[A-Z]{2}-\d\d-[A-Z]{3}-\d{4}", record.value)
        assert slot / 64 + 0.2 / 64 <= record.depth <= (slot + 1) / 64 - 0.2 / 64
    gaps = {round(b.depth - a.depth, 6) for a, b in pairwise(records)}
    assert len(gaps) > 50  # not at even distances
    assert draw_records(64, Random(1)) == records != draw_records(64, Random(2))


def test_records_lie_at_their_depth_in_tokens_not_characters() -> None:
    # 900 characters of one token each, then 100 of ten tokens each: half of 1,900 tokens is at character 905.
    parts = [Segment("One word. " * 90, 1.0), Segment("Some text. " * 10, 9.0)]
    text = hide(parts, [Record("K-AAAA", "1", 0.5)])
    line = "\n\nRecord K-AAAA: value 1.\n\n"
    assert text.count(line) == 1
    # 900 + 110 x 9 = 1,890 tokens; half is 945, 45 behind the first part, at 5 of its characters: the first end is 11.
    assert text.index(line) == 911
    assert text.replace(line, "") == "One word. " * 90 + "Some text. " * 10


def test_nothing_of_the_text_is_lost_and_all_records_are_in_it() -> None:
    gauge = Gauge(0, (0.25, 0.3, 0.3, 0.3, 0.4, 0.9, 0.9, 0.3))
    parts = segments(100_000, 3, 1, gauge)
    records = draw_records(64, Random(5))
    text = hide(parts, records)
    for record in records:
        assert text.count(f"\n\n{record_line(record)}\n\n") == 1
    lines = [f"\n\n{record_line(record)}\n\n" for record in records]
    for line in lines:
        text = text.replace(line, "", 1)
    assert text == "".join(part.text for part in parts)
    placed = [hide(parts, records).index(line) for line in lines]
    assert placed == sorted(placed)


def test_texts_of_one_long_sentence_still_get_their_records() -> None:
    text = hide([Segment("word " * 100, 1.0)], RECORDS)
    assert all(record_line(record) in text for record in RECORDS)


@pytest.mark.parametrize(
    ("content", "right", "invented"),
    [
        (
            '{"key": "K-AAAA", "value": "11-AA-22-BBB-3333"}\n{"key": "K-BBBB", "value": "44-CC-55-DDD-6666"}',
            2,
            0,
        ),
        ('```json\n[{"value":"11-AA-22-BBB-3333","key":"K-AAAA"}]\n```', 1, 0),
        ('{"key": "K-AAAA", "value": "11-AA-22-BBB-3334"}', 0, 1),  # one character off
        ('{"key": "K-AAAA", "value": "11-aa-22-BBB-3333"}', 0, 1),
        ('{"key": "K-AAAA", "value": "44-CC-55-DDD-6666"}', 0, 1),  # the value of another
        ('{"key": "K-CCCC", "value": "11-AA-22-BBB-3333"}', 0, 1),
        (
            '{"key": "K-AAAA", "value": "11-AA-22-BBB-3333"} {"key": "K-AAAA", "value": "99-ZZ-99-ZZZ-9999"}',
            0,
            1,
        ),  # two answers are none
        ("Record K-AAAA: value 11-AA-22-BBB-3333.", 0, 0),  # not the form that was asked for
        ('{"key": "K-AAAA", "value": 11}', 0, 1),
        ('{"key": "K-AAAA"', 0, 0),
        ("", 0, 0),
    ],
)
def test_the_judge(content: str, right: int, invented: int) -> None:
    answer = read_answer(content)
    assert sum(answer.right(record) for record in RECORDS) == right
    assert answer.hallucinated(RECORDS) == invented
    checks = answer.checks("text 1", RECORDS)
    assert sum(check.points for check in checks) == right
    assert [check.of for check in checks] == [1.0, 1.0]
    assert checks[0].name == "K-AAAA at 20.0%"


def test_what_is_asked() -> None:
    assert "all 64 records" in ask_all(64)
    assert "K-AAAA, K-BBBB" in ask_some(RECORDS)


# ---- the kind against a server that knows the answers


def reply(text: str) -> Script:
    return reply_script(Reply(text or "-"))


def found_in(body: dict[str, Any]) -> list[tuple[str, str]]:
    text = body["messages"][-1]["content"]
    return re.findall(r"^Record (K-\w+): value ([\w-]+)\.$", text, re.M)


def measured(answer: Any, **settings: Any) -> tuple[WorkloadResult, list[dict[str, Any]]]:
    workload = read_workload("needles-393k", {"context": 3000, "records": 8, **settings})

    async def run(url: str) -> WorkloadResult:
        return await measure_workload(await Server.connect(url), workload, 7)

    with running(answer) as mock:
        result = asyncio.run(run(mock.url))
    return result, [body for body in mock.bodies if body["max_tokens"] > 2]


def lines(records: list[tuple[str, str]]) -> str:
    return "\n".join(json.dumps({"key": key, "value": value}) for key, value in records)


def values(result: WorkloadResult) -> dict[str, float]:
    return {metric.key: metric.value for metric in result.metrics}


def test_a_server_that_gives_all_back() -> None:
    result, bodies = measured(lambda number, body: reply(lines(found_in(body))))
    assert len(bodies) == 1
    assert len(found_in(bodies[0])) == 8
    assert values(result)["right"] == 8
    assert values(result)["invented"] == 0
    assert all(check.passed for check in result.checks)
    assert len(result.checks) == 9
    assert [values(result)[f"depth_{low}"] for low in (0, 12, 25, 38, 50, 62, 75, 88)] == [100.0] * 8
    assert {m.unit for m in result.metrics if m.key == "right"} == {"of 8"}
    assert not result.phases[0].cached


def test_a_server_that_loses_the_middle_and_invents_one() -> None:
    def answer(number: int, body: dict[str, Any]) -> Script:
        some = found_in(body)
        return reply(lines([*some[:3], *some[5:], ("K-ZZZZ", "00-XX-00-XXX-0000")]))

    result, _ = measured(answer, buckets=4)
    assert values(result)["right"] == 6
    assert values(result)["invented"] == 1
    shares = [values(result)[f"depth_{low}"] for low in (0, 25, 50, 75)]
    assert shares == [100.0, 50.0, 50.0, 100.0]
    assert [check.passed for check in result.checks] == [True] * 3 + [False] * 2 + [True] * 3 + [False]


def test_some_at_a_time_share_one_text() -> None:
    def answer(number: int, body: dict[str, Any]) -> Script:
        question = body["messages"][-1]["content"].rsplit("\n\n", 1)[1]
        return reply(lines([(key, value) for key, value in found_in(body) if key in question]))

    result, bodies = measured(answer, ask=3)
    assert len(bodies) == 3
    assert len({body["messages"][-1]["content"].rsplit("\n\n", 1)[0] for body in bodies}) == 1
    assert values(result)["right"] == 8
    assert result.phases[0].cached


def test_a_refused_prompt_finds_nothing() -> None:
    def answer(number: int, body: dict[str, Any]) -> Script:
        return Refusal(400, "The prompt is too long.") if body["max_tokens"] > 2 else reply("hi")

    result, _ = measured(answer)
    assert values(result)["right"] == 0
    assert "invented" not in values(result)
    assert [check.passed for check in result.checks] == [False]


def test_shipped_files() -> None:
    big, deep = read_workload("needles-393k").settings, read_workload("needles-490k").settings
    assert (big.context, big.records) == (393_216, 64)  # type: ignore[attr-defined]
    assert (deep.context, deep.records) == (490_000, 3)  # type: ignore[attr-defined]
