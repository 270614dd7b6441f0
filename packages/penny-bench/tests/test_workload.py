"""Workloads: their files, the bench, decode and prefill against programmed servers, resuming."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import jsonschema
import pytest
from pydantic import BaseModel

import penny_bench.save as saving
from penny_bench.cli import main
from penny_bench.client import Server, Spans, Speculation, StreamRecord
from penny_bench.errors import BenchError
from penny_bench.evidence import schema
from penny_bench.load import Check
from penny_bench.mock import Refusal, Script, running, token_script
from penny_bench.workload import (
    KINDS,
    Bench,
    Kind,
    Workload,
    WorkloadResult,
    load_kind,
    measure_workload,
    parse_changes,
    parse_workload,
    read_workload,
    shipped,
)
from penny_bench.workload.kinds.prefill import prefill_rate
from penny_bench.workload.speculation import summed

FILE: dict[str, Any] = {
    "name": "mine",
    "title": "Mine",
    "version": 1,
    "kind": "decode",
    "settings": {"concurrency": [1, 2], "tokens": 8, "runs": 2, "warmups": 1},
}


def measured(workload: Workload, answer: Any, **arguments: Any) -> WorkloadResult:
    async def run(url: str) -> WorkloadResult:
        return await measure_workload(await Server.connect(url), workload, 7, **arguments)

    with running(answer) as mock:
        return asyncio.run(run(mock.url))


def plain(number: int, body: dict[str, Any]) -> Script:
    return token_script(tokens=body["max_tokens"], per_chunk=2, interval=0.01, usage="running")


# ---- files


@pytest.mark.parametrize("name", shipped())
def test_shipped_workloads_are_whole(name: str) -> None:
    workload = read_workload(name)
    assert workload.name == name
    assert workload.source
    assert not workload.changed


def test_every_kind_has_a_default_for_all_its_settings() -> None:
    assert [load_kind(name).name for name in KINDS] == list(KINDS)
    assert all(isinstance(load_kind(name).settings(), BaseModel) for name in KINDS)


def test_a_changed_setting_is_another_workload() -> None:
    base = parse_workload(FILE, "f", {})
    same = parse_workload(FILE, "f", {"tokens": 8})
    other = parse_workload(FILE, "f", {"tokens": 9})
    assert (same.digest, same.changed) == (base.digest, {})
    assert other.changed == {"tokens": 9}
    assert other.digest != base.digest


@pytest.mark.parametrize(
    ("spoil", "changes", "words"),
    [
        ({"kind": "guess"}, {}, "has the kind 'guess'; the kinds are agent,"),
        ({"nmae": "x"}, {}, "The workload f is wrong: nmae: "),
        ({"version": 0}, {}, "version: .*found 0"),
        ({"settings": {"token": 1}}, {}, "wrong settings: token: "),
        ({}, {"tokens": "many"}, "wrong settings: tokens: .*found 'many'"),
    ],
)
def test_wrong_files_are_told(spoil: dict[str, Any], changes: dict[str, Any], words: str) -> None:
    with pytest.raises(BenchError, match=words):
        parse_workload({**FILE, **spoil}, "f", changes)


def test_a_workload_from_a_file(tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('name = "mine"\ntitle = "Mine"\nversion = 1\nkind = "prefill"\n')
    assert read_workload(str(path)).kind.name == "prefill"
    with pytest.raises(BenchError, match="no workload 'mine'; give a TOML file or one of "):
        read_workload("mine")
    with pytest.raises(BenchError, match="cannot be read"):
        read_workload(str(tmp_path / "other.toml"))
    path.write_text("name = ")
    with pytest.raises(BenchError, match="is not TOML"):
        read_workload(str(path))


def test_changes_on_the_command_line() -> None:
    pairs = ["tokens=64", "concurrency=[1, 2]", "exact=false", "prompt=say it", 'file="a"']
    assert parse_changes(pairs) == {
        "tokens": 64,
        "concurrency": [1, 2],
        "exact": False,
        "prompt": "say it",
        "file": "a",
    }
    for wrong in (["tokens"], ["=1"], ["a=1", "a=2"]):
        with pytest.raises(BenchError, match="--set"):
            parse_changes(wrong)


# ---- decode and prefill


def test_decode_has_a_phase_for_each_concurrency() -> None:
    result = measured(parse_workload(FILE, "f", {}), plain)
    assert [(p.name, p.warmup, p.streams, len(p.requests)) for p in result.phases] == [
        ("C1 warm-up", True, 1, 1),
        ("C1", False, 1, 2),
        ("C2 warm-up", True, 2, 2),
        ("C2", False, 2, 4),
    ]
    numbers = [request.number for phase in result.phases for request in phase.requests]
    assert sorted(numbers) == list(range(9))
    metrics = {(m.phase, m.key): m for m in result.metrics}
    each = metrics["C1", "stream"]  # 2 tokens every 10 ms: 200/s, less on a busy machine
    assert each.better == "higher"
    assert len(each.values) == 2
    assert 50 < each.value < 220
    assert len(metrics["C2", "stream"].values) == 4
    assert 50 < metrics["C2", "aggregate"].value < 440
    assert all(0 < value < 0.5 for value in metrics["C1", "ttft"].values)
    assert result.complete


def test_failed_streams_are_in_no_number() -> None:
    def answer(number: int, body: dict[str, Any]) -> Script:
        return Refusal(503, "full") if number % 2 and body["max_tokens"] == 8 else plain(number, body)

    result = measured(parse_workload(FILE, "f", {"concurrency": [2]}), answer)
    keys = {metric.key for metric in result.metrics}
    assert "aggregate" not in keys
    failures = [r.record.failure for p in result.phases for r in p.requests if r.record.failure]
    assert len(failures) == 3
    assert failures[0].status == 503


def test_short_replies_have_no_decode_rate() -> None:
    def answer(number: int, body: dict[str, Any]) -> Script:
        return token_script(tokens=4 if number % 2 else 12, interval=0.001, usage="running")

    settings = {"concurrency": [1], "exact": False, "least": 8, "runs": 4, "warmups": 0, "tokens": 20}
    result = measured(parse_workload({**FILE, "settings": settings}, "f", {}), answer)
    metrics = {metric.key: metric for metric in result.metrics}
    assert len(metrics["stream"].values) == len(metrics["aggregate"].values) == 2
    assert sorted(metrics["output"].values) == [4.0, 4.0, 12.0, 12.0]
    assert len(metrics["whole"].values) == 4
    assert "in 2 of 4 groups a reply had fewer than 8 tokens" in result.notes[0]


def test_acceptance_is_summed_over_verify_steps() -> None:
    a, b = Speculation(2, 1, 6, (1, 1)), Speculation(2, 5, 6, (0, 0, 1, 1))
    total = summed([a, None, b])
    assert total == Speculation(4, 6, 12, (1, 1, 1, 1))
    assert total.acceptance_length == 2.5
    assert summed([None]) is None


def test_prefill_rate_is_on_the_span_of_the_server() -> None:
    record = StreamRecord(
        sent=0.0, ended=9.0, prompt_tokens=1010, cached_tokens=10, spans=Spans(0.5, 2.0, 1.0, "s")
    )
    assert prefill_rate(record) == 500.0
    assert prefill_rate(StreamRecord(sent=0.0, ended=9.0, prompt_tokens=1010)) is None


def test_prefill_without_server_spans_says_so() -> None:
    workload = parse_workload(
        {**FILE, "kind": "prefill", "settings": {"prompt_tokens": [64, 128], "runs": 2, "tokens": 2}}, "f", {}
    )
    result = measured(workload, plain)
    assert {m.key for m in result.metrics} == {"ttft", "input"}
    assert "HTTP 404" in result.notes[0]
    assert len(result.notes) == 1


# ---- the bench


async def _judging(bench: Bench, settings: Any) -> None:
    async with bench.phase("ask", "asking", cached=True) as phase:
        for case in ("good", "bad", "refused"):
            body = bench.chat(case, 4, temperature=1.0)
            await phase.send(body, case=case, turn=0, judge=lambda record: [_says(record)])
    with pytest.raises(ValueError, match="already a phase 'ask'"):
        async with bench.phase("ask", "again"):
            pass


def _says(record: StreamRecord) -> Check:
    assert record.reply is not None
    return Check("good", "says tok", record.reply.content.startswith(" tok"), points=2.0, of=2.0)


def test_checks_of_what_was_said(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(number: int, body: dict[str, Any]) -> Script:
        content = body["messages"][0]["content"]
        if content == "refused":
            return Refusal(400, "no")
        script = token_script(tokens=1)
        return [script[0], *token_script(tokens=1)[2:]] if content == "bad" else script

    class Nothing(BaseModel):
        pass

    base = parse_workload(FILE, "f", {})
    workload = Workload(
        **{**base.__dict__, "kind": Kind("judging", Nothing, _judging), "settings": Nothing()}
    )
    result = measured(workload, answer)
    names = [(check.case, check.passed) for check in result.checks]
    assert names[0] == ("good", True)
    assert ("refused", False) in names
    assert result.phases[0].cached
    assert [r.case for r in result.phases[0].requests] == ["good", "bad", "refused"]


# ---- the command


def cli(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int:
    monkeypatch.setattr("sys.argv", ["penny-bench", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    return int(ended.value.code or 0)


def valid(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads(path.read_text())
    jsonschema.Draft202012Validator(schema()).validate(document)
    return document


def as_seen(requests: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Requests without what is computed anew from times that were rounded to a microsecond."""
    return [{key: value for key, value in request.items() if key != "latency"} for request in requests]


def test_a_workload_on_the_command_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "w.json"
    with running(plain) as mock:
        small = (
            "--set",
            "concurrency=[1]",
            "--set",
            "tokens=8",
            "--set",
            "runs=1",
            "--floor",
            "C1/stream=400",
        )
        status = cli(
            monkeypatch, "run", "--url", mock.url, "--workload", "decode-short", *small, "--json", out
        )
    assert status == 0
    document = valid(out)
    assert document["workload"]["changed"] == {"concurrency": [1], "tokens": 8, "runs": 1}
    assert document["workload"]["sampling"]["temperature"] == 0.8
    stream = next(m for m in document["metrics"] if m["key"] == "stream")
    assert stream["floor"] == 400
    assert stream["share"] == pytest.approx(stream["value"] / 400)
    assert document["plan"]["load"] is None
    shown = capsys.readouterr().out
    assert "decode-short" in shown
    assert "Settings other than in the workload: concurrency = [1], tokens = 8, runs = 1." in shown


def test_a_partial_workload_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def answer(number: int, body: dict[str, Any]) -> Script:
        asked.append(body["messages"][0]["content"])
        return plain(number, body)

    out = tmp_path / "w.json"
    flags = ["--workload", "decode-short", "--set", "concurrency=[1, 2]", "--set", "tokens=6"]
    with running(answer) as mock:
        assert cli(monkeypatch, "run", "--url", mock.url, *flags, "--json", out, "--seed", "5") == 0
        whole = valid(out)
        first = list(asked)
        # As if the run had been interrupted in its last phase.
        cut = json.loads(out.read_text())
        cut["status"] = "partial"
        cut["phases"][-1]["ended"] = None
        cut["requests"] = [r for r in cut["requests"] if r["phase"] != "C2"]
        cut["seconds"] = 100.0
        half = tmp_path / "half.json"
        half.write_text(json.dumps(cut))
        asked.clear()
        again = tmp_path / "again.json"
        assert cli(monkeypatch, "run", "--url", mock.url, *flags, "--json", again, "--resume", half) == 0
        wrong = [*flags[:-1], "tokens=7"]
        assert cli(monkeypatch, "run", "--url", mock.url, *wrong, "--resume", half) == 2
        assert cli(monkeypatch, "run", "--url", mock.url, *flags, "--resume", again) == 2
    document = valid(again)
    assert document["status"] == "complete"
    assert len(document["requests"]) == len(whole["requests"]) == 9
    assert as_seen(document["requests"][:3]) == as_seen(whole["requests"][:3])
    assert all(request["sent"] > 100 for request in document["requests"][3:])
    assert document["earlier"] == [{"started": whole["started"], "seconds": 100.0, "requests": 6}]
    preflight = len(document["preflight"])
    sent = asked[preflight:]
    assert len(sent) == 6  # the streams of C2 alone, with prompts that no cache may know from before
    assert not set(sent) & set(first)


def test_a_partial_load_goes_on_where_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    out, again = tmp_path / "r.json", tmp_path / "again.json"
    flags = ["--load", "constant:rate=50", "--requests", "6", "--tokens", "4", "--warmups", "0"]
    with running(plain) as mock:
        assert cli(monkeypatch, "run", "--url", mock.url, *flags, "--json", out) == 0
        cut = valid(out)
        cut["status"] = "partial"
        cut["requests"] = [r for r in cut["requests"] if r["number"] in (0, 2)]
        out.write_text(json.dumps(cut))
        before = len(mock.bodies)
        assert cli(monkeypatch, "run", "--url", mock.url, *flags, "--json", again, "--resume", out) == 0
        sent = len(mock.bodies) - before
    document = valid(again)
    assert sent == len(document["preflight"]) + 4
    assert [request["number"] for request in document["requests"]] == list(range(6))
    assert as_seen(document["requests"][:1]) == as_seen(cut["requests"][:1])


def test_what_cannot_be_written_is_kept_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    written: list[Path] = []

    def full(path: Path, value: dict[str, Any], indent: int | None = None) -> None:
        if not written:
            written.append(path)
            raise BenchError(f"{path} could not be written: No space left on device.")
        path.write_text(json.dumps(value))

    monkeypatch.setattr(saving, "write_json", full)
    monkeypatch.setattr(saving.tempfile, "tempdir", str(tmp_path))
    with running(plain) as mock:
        out = tmp_path / "gone.json"
        status = cli(monkeypatch, "run", "--url", mock.url, "--requests", "2", "--tokens", "4", "--json", out)
    assert status == 2
    assert "No space left on device. The evidence is in" in capsys.readouterr().err
    kept = list(tmp_path.glob("penny-bench-*.json"))
    assert len(valid(kept[0])["requests"]) == 2


def test_workloads_are_listed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli(monkeypatch, "workloads") == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in shipped())
    assert cli(monkeypatch, "workloads", "decode-short") == 0
    assert "concurrency" in capsys.readouterr().out


def test_floors_are_refused_if_wrong(monkeypatch: pytest.MonkeyPatch) -> None:
    for wrong in ("C1/stream", "=3", "ttft=0", "ttft=inf"):
        assert cli(monkeypatch, "run", "--url", "http://127.0.0.1:9", "--floor", wrong) == 2
