"""`penny-spec map` as a user runs it: output, JSON, files and exit codes."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from tokenizers import Tokenizer, models, pre_tokenizers

from penny_spec.cli import main


class Result(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Result]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("COLUMNS", "200")

    def call(*arguments: str) -> Result:
        monkeypatch.setattr(sys, "argv", ["penny-spec", "map", *arguments])
        try:
            main()
            code = 0
        except SystemExit as ended:
            code = int(ended.code or 0)
        return Result(code, *capsys.readouterr())

    tokenizer = Tokenizer(models.WordLevel({f"w{i}": i for i in range(200)}, unk_token="w0"))
    tokenizer.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    tokenizer.add_special_tokens(["<end>"])  # id 200
    tokenizer.save("tokenizer.json")
    rows = [{"text": f"w1 w2 w{n % 20} w{n % 150}", "language": "en"} for n in range(400)]
    Path("rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return call


BUILD = ("build", "map.pt", "--tokenizer", "tokenizer.json", "--size", "128", "--base", "8")


def test_build_verify_inspect(run: Run) -> None:
    result = run(*BUILD, "--corpus", "rows.jsonl:domain=test", "--floor", "0.8")
    assert result.code == 0, result.err
    assert "128 of 201 ids" in result.out
    assert "language en" in result.out
    assert "domain test" in result.out
    ids = torch.load("map.pt", weights_only=True)
    assert ids.shape == (128,)
    assert 200 in ids.tolist()
    manifest = json.loads(Path("map.manifest.json").read_text(encoding="utf-8"))
    assert [row["path"] for row in manifest["corpus"]] == ["rows.jsonl"]

    assert run("verify", "map.pt", "--tokenizer", "tokenizer.json") == (0, "map.pt is good.\n", "")
    unaided = run("verify", "map.pt")
    assert unaided.code == 0
    assert "not compared with a vocabulary" in unaided.err
    inspected = run("inspect", "map.pt", "--tokenizer", "tokenizer.json")
    assert inspected.code == 0
    assert "special ids: 1 of 1" in inspected.out
    assert "Latin" in inspected.out


def test_json_everywhere(run: Run) -> None:
    built = json.loads(run(*BUILD, "--corpus", "rows.jsonl", "--floor", "0", "--json").out)
    assert (built["map"], built["manifest"], built["built"]["size"]) == ("map.pt", "map.manifest.json", 128)
    assert any("rests on" in warning for warning in built["warnings"])
    assert json.loads(run("inspect", "map.pt", "--json").out)["size"] == 128
    verified = json.loads(run("verify", "map.pt", "--tokenizer", "tokenizer.json", "--json").out)
    assert verified == {
        "map": "map.pt",
        "ok": True,
        "problems": [],
        "unchecked": [],
        "manifest": "map.manifest.json",
    }
    compared = json.loads(run("compare", "map.pt", "map.pt", "--json").out)
    assert (compared["shared"], compared["only_left"], compared["jaccard"]) == (128, [], 1.0)


def test_compare_with_a_corpus(run: Run) -> None:
    torch.save(torch.tensor([1, 2]), "a.pt")
    torch.save(torch.tensor([2, 3, 4]), "b.pt")
    Path("t.txt").write_text("w1 w1 w1 w2 w3 w9 w9 w9", encoding="utf-8")
    arguments = ("compare", "a.pt", "b.pt", "--tokenizer", "tokenizer.json", "--corpus", "t.txt:lang=en")
    found = json.loads(run(*arguments, "--json").out)
    assert (found["shared"], found["only_left"], found["only_right"]) == (1, [1], [3, 4])
    english = {"kind": "language", "name": "en", "tokens": 8, "left": 0.5, "right": 0.25}
    assert english in found["coverage"]
    printed = run(*arguments)
    assert printed.code == 0
    assert "1 only in a.pt: 1 'w1'" in printed.out
    assert "0.5000" in printed.out


def test_a_build_under_the_floor_writes_nothing(run: Run) -> None:
    result = run(*BUILD[:5], "8", "--base", "4", "--corpus", "rows.jsonl", "--floor", "0.9")
    assert result.code == 4
    assert "language en of the corpus 0." in result.err
    assert result.err.startswith("penny-spec: Held-out coverage is under the floor of 0.9000")
    assert not Path("map.pt").exists()
    assert not Path("map.manifest.json").exists()


def test_a_map_of_bad_row_count_warns(run: Run) -> None:
    result = run(*BUILD[:5], "100", "--corpus", "rows.jsonl", "--floor", "0")
    assert result.code == 0
    assert "Warning: 100 rows are no multiple of the 128-row tile" in result.err


def test_choices(run: Run) -> None:
    Path("out.jsonl").write_text('{"tokens": [150, 150]}\n' * 3 + '{"tokens": [160]}\n', encoding="utf-8")
    shared = ("--choices", "out.jsonl", "--ids-field", "tokens", "--hold-out", "0", "--floor", "0", "--json")
    result = run(*BUILD[:5], "4", "--base", "1", *shared)
    assert result.code == 0, result.err
    assert torch.load("map.pt", weights_only=True).tolist() == [0, 150, 160, 200]
    assert json.loads(result.out)["built"]["choices_weight"] == 1.0
    mixed = run(*BUILD[:5], "4", "--base", "1", "--corpus", "rows.jsonl", *shared, "--force")
    # Choices w150 6/7, w160 1/7; in the corpus w1 and w2 are a quarter and more each: w150 first, then w1 or w2.
    assert json.loads(mixed.out)["built"]["choices_weight"] == 0.5
    assert torch.load("map.pt", weights_only=True).tolist() == [0, 1, 150, 200]


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (BUILD, "Nothing to count"),
        ((*BUILD, "--corpus", "none.txt"), "There is no file or folder none.txt"),
        ((*BUILD, "--corpus", "rows.jsonl", "--choices-weight", "0.5"), "--choices-weight needs --choices"),
        (
            (*BUILD, "--corpus", "rows.jsonl", "--text-field", "body"),
            "no field 'body' in line 1 of rows.jsonl",
        ),
        ((*BUILD, "--corpus", "rows.jsonl:size=3"), "each of the two keys once"),
        ((*BUILD, "--corpus", "rows.jsonl", "--keep", "none"), "--keep"),
        ((*BUILD[:5], "300", "--corpus", "rows.jsonl"), "A map of 300 rows was asked for"),
        (("build", "no/map.pt", *BUILD[2:], "--corpus", "rows.jsonl"), "There is no folder no"),
        (("build", "rows.jsonl", *BUILD[2:], "--corpus", "rows.jsonl"), "is there already"),
        (("inspect", "none.pt"), "There is no file none.pt"),
        (("verify", "none.pt"), "There is no file none.pt"),
        (("verify", "rows.jsonl", "--manifest", "none.json"), "There is no manifest none.json"),
        (("compare", "a.pt", "b.pt", "--corpus", "rows.jsonl"), "--corpus needs --tokenizer"),
        (("inspect", "a.pt", "--model-vocab-size", "9"), "--model-vocab-size needs --tokenizer"),
        (("unknown",), "No such command"),
    ],
)
def test_wrong_usage_is_exit_code_2(arguments: tuple[str, ...], sentence: str, run: Run) -> None:
    result = run(*arguments)
    assert result.code == 2
    assert sentence in result.err
    assert "Traceback" not in result.err


@pytest.mark.parametrize("command", ["inspect", "verify", "compare"])
def test_a_bad_map_is_exit_code_4(command: str, run: Run) -> None:
    torch.save([1, 2], "bad.pt")
    torch.save(torch.tensor([1]), "good.pt")
    result = run(command, "bad.pt", *(["good.pt"] if command == "compare" else []))
    assert result.code == 4
    assert "bad.pt holds a list" in result.out + result.err


def test_verify_says_what_differs(run: Run) -> None:
    run(*BUILD, "--corpus", "rows.jsonl", "--floor", "0")
    torch.save(torch.arange(128), "map.pt")
    result = run("verify", "map.pt", "--tokenizer", "tokenizer.json")
    assert result.code == 4
    assert "map.pt is bad." in result.out
    assert "The manifest says ids_sha256" in result.out
    assert "1 special ids are missing, the first is 200 (<end>)" in result.out
    assert not json.loads(run("verify", "map.pt", "--json").out)["ok"]


def test_an_unreadable_input_is_a_sentence(run: Run) -> None:
    Path("bad.jsonl").write_text('{"text": "w1"}\n{"text"\n', encoding="utf-8")
    result = run(*BUILD, "--corpus", "bad.jsonl")
    assert result.code == 2
    assert result.err.startswith("penny-spec: Line 2 of bad.jsonl is no JSON")
