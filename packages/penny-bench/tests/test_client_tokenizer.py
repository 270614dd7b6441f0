"""Tokens of servers that send no usage, counted by a tokenizer and labelled as estimates."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penny_bench.cli import main
from penny_bench.client import Timeline
from penny_bench.client.tokenizer import load_tokenizer
from penny_bench.errors import BenchError
from penny_bench.mock import Script, chunk, running, token_script

tokenizers = pytest.importorskip("tokenizers", reason="the extra penny-bench[tokenizer] is not installed")


@pytest.fixture
def words(tmp_path: Path) -> Path:
    """A tokenizer whose tokens are words."""
    model = tokenizers.models.WordLevel({"tok": 0, "[UNK]": 1}, unk_token="[UNK]")
    made = tokenizers.Tokenizer(model)
    made.pre_tokenizer = tokenizers.pre_tokenizers.Whitespace()
    made.save(str(tmp_path / "tokenizer.json"))
    return tmp_path


def timeline(words: Path, **usage: Any) -> Timeline:
    made = Timeline(0.0, count=load_tokenizer(words))
    made.event(1.0, chunk({"reasoning_content": "one two"}))
    made.event(2.0, chunk({"content": " tok tok tok"}))
    made.event(3.0, {**chunk(finish="stop"), **usage})
    made.done()
    return made


def test_without_usage_the_text_is_counted_and_labelled(words: Path) -> None:
    record = timeline(words).record(3.0)
    assert (record.output_tokens, record.failure, record.estimated, record.reply) == (5, None, True, None)


def test_the_server_counts_if_it_does(words: Path) -> None:
    record = timeline(words, usage={"completion_tokens": 9}).record(3.0)
    assert (record.output_tokens, record.estimated) == (9, False)


def test_a_stream_without_text_still_fails(words: Path) -> None:
    made = Timeline(0.0, count=load_tokenizer(words / "tokenizer.json"))
    made.event(1.0, chunk(finish="stop"))
    record = made.record(1.0)
    assert record.failure is not None
    assert (record.failure.kind, record.output_tokens) == ("no_usage", None)


def test_what_is_no_tokenizer_is_told(tmp_path: Path) -> None:
    with pytest.raises(BenchError, match=r"There is no .*tokenizer\.json"):
        load_tokenizer(tmp_path)
    (tmp_path / "tokenizer.json").write_text("{}")
    with pytest.raises(BenchError, match="is no tokenizer"):
        load_tokenizer(tmp_path)


def test_a_run_of_estimates_says_so_and_is_not_compared_with_exact_ones(
    words: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def cli(*arguments: str | Path) -> int:
        monkeypatch.setattr("sys.argv", ["penny-bench", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        return int(ended.value.code or 0)

    usage: Any = "none"

    def answer(number: int, body: dict[str, Any]) -> Script:
        return token_script(tokens=body["max_tokens"], interval=0.002, usage=usage)

    guess, exact = tmp_path / "guess.json", tmp_path / "exact.json"
    flags = ("--requests", "3", "--tokens", "6", "--warmups", "0")
    with running(answer) as mock:
        assert cli("run", "--url", mock.url, *flags) == 2
        assert cli("run", "--url", mock.url, *flags, "--tokenizer", words, "--json", guess) == 0
        usage = "final"
        assert cli("run", "--url", mock.url, *flags, "--json", exact) == 0
    document = json.loads(guess.read_text())
    assert [request["usage"]["output_tokens"] for request in document["requests"]] == [6, 6, 6]
    assert all(request["usage"]["by_tokenizer"] for request in document["requests"])
    assert document["notes"][0].startswith("ESTIMATES: ")
    assert not json.loads(exact.read_text())["notes"]
    capsys.readouterr()
    assert cli("compare", guess, exact) == 2
    assert "differ in tokens counted by" in capsys.readouterr().err
