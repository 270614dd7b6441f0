"""The make-believe server of the demo and the command."""

import json
from pathlib import Path
from typing import Any

import jsonschema
import numpy as np
import pytest
import typer
from typer.testing import CliRunner

from penny_bench.demo import Engine, demo_load, prefill_seconds
from penny_bench.demo.commands import demo
from penny_bench.errors import BenchError
from penny_bench.evidence import schema
from penny_bench.mock import Refusal, Step


def body(tokens: int, characters: int = 400) -> dict[str, Any]:
    return {"messages": [{"role": "user", "content": "x" * characters}], "max_tokens": tokens}


def events(script: Any) -> list[Step]:
    assert isinstance(script, list)
    return [step for step in script if isinstance(step, Step)]


def test_a_stream_brings_what_its_usage_says() -> None:
    engine = Engine(3)
    for tokens in (1, 2, 50):
        steps = events(engine(0, body(tokens)))
        (closing,) = [s.data for s in steps if isinstance(s.data, dict) and "sglext" in s.data]
        assert sum(step.tokens for step in steps) == tokens
        assert closing["usage"]["completion_tokens"] == tokens
        told = closing["sglext"]["spec_tokens_details"]
        histogram = told["spec_correct_drafts_histogram"]
        # One token of the first event, then one and the accepted drafts for each verify step.
        assert 1 + told["spec_verify_ct"] + told["spec_num_correct_drafts"] == tokens
        assert sum(histogram) == told["spec_verify_ct"]
        assert sum(i * n for i, n in enumerate(histogram)) == told["spec_num_correct_drafts"]


def test_prefills_wait_for_each_other_and_grow_with_the_prompt() -> None:
    assert prefill_seconds(9000) == pytest.approx(1.45)  # 1 s x (1 + 9,000 / 20,000)
    engine = Engine()
    delays = [max(step.delay for step in events(engine(i, body(4, 36_000 // 4)))[:2]) for i in range(3)]
    single = prefill_seconds(2250)
    np.testing.assert_allclose(delays, [single, 2 * single, 3 * single], atol=0.05)


def test_one_long_prompt_is_refused() -> None:
    engine = Engine()
    answers = [engine(i, body(4, size)) for i, size in enumerate((400, 16_000, 16_000))]
    assert [isinstance(answer, Refusal) for answer in answers] == [False, True, False]


def test_the_load_is_the_same_for_a_seed_and_fits_its_time() -> None:
    first, again, other = demo_load(40, 1), demo_load(40, 1), demo_load(40, 2)
    assert first == again != other
    times = [slot.t for slot in first.requests]
    assert times == sorted(times)
    assert times[-1] < 34
    assert len({slot.prompt_tokens for slot in first.requests}) > 3
    assert len(demo_load(5, 1).requests) >= 8


def invoke(*arguments: str) -> Any:
    app = typer.Typer()
    app.command()(demo)
    return CliRunner().invoke(app, list(arguments))


def test_the_command_writes_a_report(tmp_path: Path) -> None:
    page, evidence = tmp_path / "demo.html", tmp_path / "demo.json"
    done = invoke("--seconds", "5", "--html", str(page), "--json", str(evidence))
    assert done.exit_code == 0, done.output
    assert f"The report is in {page}" in done.stdout
    value = json.loads(evidence.read_text())
    jsonschema.Draft202012Validator(schema()).validate(value)
    assert value["summary"]["errors"] == {"http": 1}
    assert value["summary"]["itl"]["n"] == sum(r["usage"]["output_tokens"] - 1 for r in good(value))
    assert value["speculation"]["verify"] > 50
    assert "make-believe server" in value["notes"][0]
    text = page.read_text(encoding="utf-8")
    assert "This one failure belongs to the demo." in text
    assert str(tmp_path) not in text


def good(value: dict[str, Any]) -> list[dict[str, Any]]:
    return [request for request in value["requests"] if not request["failure"]]


def test_the_command_refuses(tmp_path: Path) -> None:
    found = invoke("--seconds", "1", "--html", str(tmp_path / "x.html"))
    assert isinstance(found.exception, BenchError)
    assert "give 5 to 600" in str(found.exception)
    found = invoke("--html", str(tmp_path / "none" / "x.html"))
    assert "correct --html" in str(found.exception)
