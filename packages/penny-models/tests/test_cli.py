"""The command line: what it prints and its exit codes, 0 good, 2 wrong usage, 4 bad checkpoint."""

import dataclasses
import json
import subprocess
import sysconfig
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from penny_models import check_checkpoint, tiny
from penny_models.cli import app


def run(*arguments: str) -> Result:
    return CliRunner().invoke(app, list(arguments))


def test_check_prints_what_was_found(shipped: Path) -> None:
    result = run("check", str(shipped))
    assert result.exit_code == 0
    assert result.stderr == ""
    assert result.stdout.startswith(f"{shipped} is whole: Qwen3_5ForConditionalGeneration\n")
    assert "NEXTN (MTP) layers: 1\n" in result.stdout


def test_check_as_json(shipped: Path) -> None:
    result = run("check", str(shipped), "--json")
    assert result.exit_code == 0
    report = dataclasses.asdict(check_checkpoint(shipped))
    assert json.loads(result.stdout) == {**report, "warnings": []}


def test_check_shows_warnings(checkpoint: Path) -> None:
    config = json.loads((checkpoint / "config.json").read_text())
    config["text_config"]["mtp_num_hidden_layers"] = 0
    (checkpoint / "config.json").write_text(json.dumps(config))
    result = run("check", str(checkpoint))
    assert result.exit_code == 0
    assert "Warning: 15 tensors will not be used: mtp.fc.weight" in result.stdout


@pytest.mark.parametrize("as_json", [[], ["--json"]])
def test_a_bad_checkpoint_is_one_sentence_and_code_4(tmp_path: Path, as_json: list[str]) -> None:
    folder = tmp_path / "[red]model"  # rich would take the brackets for markup
    folder.mkdir()
    result = run("check", str(folder), *as_json)
    assert result.exit_code == 4
    assert result.stdout == ""
    assert result.stderr == f"Error: {folder} has no config.json; a checkpoint folder needs one.\n"


def test_the_tiny_checkpoints(shipped: Path) -> None:
    listed = run("tiny", "list")
    assert listed.exit_code == 0
    assert len(listed.stdout.splitlines()) == len(tiny.names())
    assert listed.stdout.startswith("tiny-27b  Qwen3_5ForConditionalGeneration  ")
    path = run("tiny", "path", "tiny-27b")
    assert (path.exit_code, path.stdout) == (0, f"{shipped}\n")
    card = run("tiny", "card", "tiny-27b")
    assert (card.exit_code, card.stdout) == (0, tiny.card("tiny-27b"))


@pytest.mark.parametrize("command", ["path", "card"])
def test_an_unknown_name_is_wrong_usage(command: str) -> None:
    result = run("tiny", command, "tiny-72b")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr == (
        "Error: There is no tiny checkpoint named 'tiny-72b'; shipped: tiny-27b, tiny-27b-dflash2, tiny-next. "
        "Did you mean tiny-27b?\n"
    )


@pytest.mark.parametrize("arguments", [["chek"], ["check"], ["check", ".", "--jsn"], ["tiny", "path"]])
def test_wrong_usage_is_code_2(arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2


def test_the_installed_command(tmp_path: Path) -> None:
    command = Path(sysconfig.get_path("scripts"), "penny-models")
    result = subprocess.run([command, "check", "absent"], cwd=tmp_path, capture_output=True, text=True)
    assert result.returncode == 4
    assert result.stderr.startswith("Error: absent does not exist; expected a checkpoint folder")
    assert "Traceback" not in result.stderr
