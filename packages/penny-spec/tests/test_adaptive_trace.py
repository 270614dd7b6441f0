"""The trace file, its schema, and the command."""

import json
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from penny_spec.adaptive import Record, Trace, parse_trace, read_trace, write_trace
from penny_spec.adaptive.__main__ import app

HEADER = '{"schema": "penny-spec.verify-trace/1", "every_position": false}'
GOOD = {"request": 0, "width": 7, "accepted": 3, "top1": 0.97, "batch": 1}


def lines(*records: Any) -> list[str]:
    return [HEADER, *(record if isinstance(record, str) else json.dumps(record) for record in records)]


def valid(line: str) -> bool:
    schema = pytest.importorskip("jsonschema")
    text = files("penny_spec.adaptive").joinpath("trace.schema.json").read_text(encoding="utf-8")
    return bool(schema.Draft202012Validator(json.loads(text)).is_valid(json.loads(line)))


def test_a_trace_comes_back_as_it_was_written(tmp_path: Path) -> None:
    records = (Record(0, 7, 3, 0.97, 1), Record(4, 7, 0, 0.25, 1), Record(4, 7, 7, 1.0, 1))
    trace = Trace(records, True, {"model": "m"})
    write_trace(tmp_path / "t.jsonl", trace)
    assert read_trace(tmp_path / "t.jsonl") == trace
    assert all(valid(line) for line in (tmp_path / "t.jsonl").read_text().splitlines())


def test_rounding_keeps_the_highest_bucket_apart_from_one(tmp_path: Path) -> None:
    write_trace(tmp_path / "t.jsonl", Trace((Record(0, 1, 0, 0.999_999, 1), Record(0, 1, 0, 0.123_46, 1))))
    assert [record.top1 for record in read_trace(tmp_path / "t.jsonl").records] == [0.9999, 0.1235]


@pytest.mark.parametrize(
    ("record", "says"),
    [
        (GOOD | {"width": 0}, "line 2 has width 0; it must be a whole number of at least 1"),
        (GOOD | {"width": True}, "has width True"),
        (GOOD | {"accepted": -1}, "has accepted -1"),
        (GOOD | {"request": 1.5}, "has request 1.5"),
        (GOOD | {"batch": 0}, "has batch 0"),
        (GOOD | {"top1": 1.01}, "it is a probability"),
        (GOOD | {"top1": None}, "it is a probability"),
        (GOOD | {"more": 1}, "a record has exactly"),
        ({"request": 0, "width": 7, "accepted": 3, "top1": 0.97}, "a record has exactly"),
        ([1], "not an object"),
    ],
)
def test_reader_and_schema_refuse_the_same_records(record: Any, says: str) -> None:
    assert valid(json.dumps(GOOD))
    assert not valid(json.dumps(record))
    with pytest.raises(ValueError, match=says):
        parse_trace(lines(record))


def test_what_a_schema_cannot_say_is_refused_too() -> None:
    with pytest.raises(ValueError, match="8 tokens accepted of 7; that is more than were drafted"):
        parse_trace(lines(GOOD | {"accepted": 8}))
    with pytest.raises(ValueError, match=r"mine line 3 is no JSON"):
        parse_trace(lines(GOOD, '{"request": 0'), "mine")
    with pytest.raises(ValueError, match="is empty"):
        parse_trace([])
    with pytest.raises(ValueError, match="no steps"):
        parse_trace([HEADER])
    for header in ("{}", '{"schema": "other", "every_position": true}', json.dumps(GOOD)):
        with pytest.raises(ValueError, match="no header of a trace"):
            parse_trace([header, json.dumps(GOOD)])


def test_only_some_requests() -> None:
    trace = Trace((Record(0, 7, 3, 0.5, 1), Record(1, 7, 2, 0.5, 1)))
    assert trace.only(lambda number: number == 1).records == trace.records[1:]
    with pytest.raises(ValueError, match="record it at batch 1"):
        Trace((Record(0, 7, 3, 0.5, 2), Record(1, 7, 2, 0.5, 2))).only(lambda number: number == 1)


# ---- the command


def run(*arguments: str) -> Any:
    return CliRunner().invoke(app, ["replay", *arguments])


@pytest.fixture
def path(tmp_path: Path) -> str:
    write_trace(tmp_path / "t.jsonl", Trace(tuple(Record(0, 3, count, 0.5, 1) for count in (3, 0, 1))))
    return str(tmp_path / "t.jsonl")


def test_command_writes_json(path: str) -> None:
    result = run(path, "--policy", "ema", "--widths", "1,3", "--step-a", "10", "--step-b", "1", "--json")
    assert result.exit_code == 0, result.output
    found = json.loads(result.stdout)
    assert found["best_fixed"] == "fixed-3"
    rates = {one["name"]: one["tokens_per_s"] for one in found["choices"]}
    # 7 tokens in 39 ms, 7 in 35 ms; three steps are within the warm-up, so the policy stays at 3.
    assert rates["fixed-3"] == rates["ema"] == pytest.approx(7000 / 39)
    assert rates["oracle"] == pytest.approx(200.0)
    assert set(rates) == {"ema", "fixed-1", "fixed-2", "fixed-3", "oracle"}


def test_command_prints_a_table_of_both_policies(path: str) -> None:
    result = run(path, "--widths", "1,3")
    assert result.exit_code == 0, result.output
    for word in ("ema", "confidence", "fixed-2", "fixed-3 *", "oracle"):
        assert word in result.stdout


def test_command_refuses_with_a_sentence(path: str) -> None:
    for arguments, says in (
        ((path,), "may draft 7 tokens and the trace was recorded at width 3"),
        ((path, "--widths", "a"), "write them as 3,7"),
        ((path, "--widths", "1,3", "--step-a", "-1"), "must be above 0"),
        ((path + "x", "--widths", "1,3"), "No such file"),
    ):
        result = run(*arguments)
        assert result.exit_code == 1
        assert says in result.stderr
        assert "Traceback" not in result.stderr
