"""Each profile, resolved on a machine without a GPU, is what a person wrote down from the reference."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest

from penny_server.cli.run import run
from penny_server.profiles import DEFAULT_PROFILE, names

HERE = Path(__file__).parent
GOLDEN = sorted(file.stem for file in (HERE / "golden").glob("*.toml"))


def golden(name: str) -> dict[str, Any]:
    text = tomllib.loads((HERE / "golden" / f"{name}.toml").read_text())
    base = golden(text["base"]) if "base" in text else {"args": {}, "env": {}}
    args = {flag: value for flag, value in base["args"].items() if flag not in text.get("without", [])}
    args |= text.get("args", {})
    return {
        "needs": text["needs"],
        "features": text["features"],
        "args": args,
        "env": base["env"] | text.get("env", {}),
    }


def read(value: str) -> Any:
    return json.loads(value) if value.startswith("{") else value


def as_table(args: list[str]) -> dict[str, Any]:
    table: dict[str, Any] = {}
    for at, word in enumerate(args):
        if word.startswith("--"):
            following = args[at + 1] if at + 1 < len(args) else "--"
            assert word not in table, f"{word} is given twice"
            table[word] = True if following.startswith("--") else read(following)
    return table


def dry_run(capsys: pytest.CaptureFixture[str], *args: str) -> dict[str, Any]:
    capsys.readouterr()
    assert run(["serve", *args, "--dry-run", "--json"]) == 0
    return json.loads(capsys.readouterr().out)


@pytest.fixture(autouse=True)
def no_gpu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize("name", GOLDEN)
def test_golden(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    expected, found = golden(name), dry_run(capsys, name)
    assert as_table(found["args"]) == expected["args"]
    env = {key: read(value) for key, value in found["env"].items() if key != "PENNY_FEATURES"}
    assert env == expected["env"]
    assert found["needs"] == expected["needs"]
    assert found["features"] == expected["features"]
    assert found["env"]["PENNY_FEATURES"] == ",".join(expected["features"])
    assert found["compute_capability"] == "12.0"


def test_every_profile_of_the_reference_has_a_golden_file() -> None:
    ours = {"tiny-27b", "tiny-27b-nextn", "tiny-27b-dflash2", "tiny-next", "tiny-next-frspec", "qwen38-27b"}
    assert set(names()) - ours <= set(GOLDEN)
    assert DEFAULT_PROFILE in GOLDEN


def test_the_default_profile(capsys: pytest.CaptureFixture[str]) -> None:
    assert dry_run(capsys)["profile"] == DEFAULT_PROFILE == "flash-next-frspec"


def test_a_dry_run_says_what_is_missing(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["serve", "flash-next", "--dry-run"]) == 0
    said = capsys.readouterr()
    assert "--hicache-storage-backend dynamic" in said.out
    assert "not built yet, so this cannot be started: recover-ssm, cache-store, chat-template" in said.err
