"""Acceptance in a map's manifest: from a server's answers to what the guard reads."""

import json
import sys
from pathlib import Path

import pytest
import torch

from penny_spec.cli import main
from penny_spec.frspec import (
    InputError,
    MapError,
    accepted_by_slot,
    calibrate,
    file_sha256,
    find_files,
    manifest_path,
    parse_source,
    read_manifest,
)
from penny_spec.guard import Expectation


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A map of three ids with as much of a manifest as matters here."""
    file = tmp_path / "some.pt"
    torch.save(torch.tensor([1, 5, 9]), file)
    manifest_path(file).write_text(json.dumps({"map_sha256": file_sha256(file), "size": 3}))
    return file


def record(folder: Path, *rows: object) -> str:
    (folder / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(folder / "answers.jsonl")


def answer(histogram: object, **more: object) -> dict[str, object]:
    return {"meta_info": {"spec_correct_drafts_histogram": histogram}, **more}


def put(path: Path, *rows: object) -> dict[str, dict[str, object]]:
    return calibrate(path, find_files([parse_source(record(path.parent, *rows))]))


def test_rates_by_hand() -> None:
    # Of 10 chains 8 go past the first place, 6 of these past the second, 3 of these past the third.
    assert accepted_by_slot([2, 2, 3, 3]) == (0.8, 0.75, 0.5)
    assert accepted_by_slot([4, 0, 0]) == (0.0, 0.0)


def test_the_guard_reads_what_was_put_in(path: Path) -> None:
    rows = answer([1, 1, 2], group="code"), answer([1, 1, 2], group="code"), answer([0, 1, 9], group="prose")
    written = put(path, *rows)
    assert written["code"] == {"accepted_by_slot": [0.75, 2 / 3], "verifies": 8}
    found = Expectation.read(manifest_path(path))
    assert found.groups == {"code": (0.75, 2 / 3), "prose": (1.0, 0.9)}
    assert read_manifest(manifest_path(path))["size"] == 3


def test_without_a_group_all_is_one(path: Path) -> None:
    assert put(path, answer([1, 3]), answer([0, 4])) == {"all": {"accepted_by_slot": [0.875], "verifies": 8}}


@pytest.mark.parametrize(
    ("row", "word"),
    [
        ({"text": "no meta"}, "no spec_correct_drafts_histogram with counts in line 1"),
        (answer(None), "no spec_correct_drafts_histogram"),
        (answer([0, 0]), "no spec_correct_drafts_histogram"),
        (answer([]), "no spec_correct_drafts_histogram"),
        (answer([1, -1]), "no spec_correct_drafts_histogram"),
        (answer([1, 2], group=7), "group in line 1 .* is 7"),
        (answer([5, 0]), "accepts nothing at its first position"),
        (answer([3]), "rates"),
    ],
)
def test_answers_that_say_nothing_are_refused(path: Path, row: object, word: str) -> None:
    before = manifest_path(path).read_bytes()
    with pytest.raises(InputError, match=word):
        put(path, row)
    assert manifest_path(path).read_bytes() == before


def test_lists_end_at_the_most_that_was_accepted(path: Path) -> None:
    """SGLang's answer of one word that the map lacks is `[63]`."""
    written = put(path, answer([6]), answer([1, 1, 2]), answer([1, 1], group="short"))
    assert written["all"] == {"accepted_by_slot": [0.3, 2 / 3], "verifies": 10}
    assert written["short"] == {"accepted_by_slot": [0.5, 0.0], "verifies": 2}


def test_a_manifest_of_another_map_is_refused(path: Path) -> None:
    torch.save(torch.tensor([1, 5]), path)
    with pytest.raises(MapError, match="is of another map"):
        put(path, answer([1, 1]))
    manifest_path(path).unlink()
    with pytest.raises(InputError, match="no manifest"):
        put(path, answer([1, 1]))


def test_the_command(path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    file = record(path.parent, answer([1, 1, 2], group="temperature_0/code"))
    monkeypatch.setattr(
        sys, "argv", ["penny-spec", "map", "calibrate", str(path), "--answers", file, "--json"]
    )
    with pytest.raises(SystemExit) as ended:
        main()
    assert not ended.value.code
    told = json.loads(capsys.readouterr().out)
    assert told["acceptance"] == {"temperature_0/code": {"accepted_by_slot": [0.75, 2 / 3], "verifies": 4}}
    assert told["acceptance"] == read_manifest(Path(told["manifest"]))["acceptance"]
