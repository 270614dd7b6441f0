"""The `penny-cache` command, as a user runs it."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from penny_cache import __version__, namespace
from penny_cache.namespace import MANIFEST_NAME, Identity


def run(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", "from penny_cache.cli import main; main()", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture
def store(tmp_path: Path) -> tuple[Path, Path, Path]:
    left = namespace.create(tmp_path, Identity.of("tiny", {"page_size": 64, "dtype": "[bold]"}))
    right = namespace.create(tmp_path, Identity.of("tiny", {"page_size": 32, "dtype": "[bold]"}))
    return tmp_path, left.path, right.path


def test_show_one(store: tuple[Path, Path, Path]) -> None:
    done = run("namespace", "show", store[1])
    assert done.returncode == 0, done.stderr
    assert "page_size" in done.stdout
    assert "[bold]" in done.stdout
    shown = json.loads(run("namespace", "show", store[1], "--json").stdout)
    assert shown["fields"] == {"dtype": "[bold]", "page_size": 64}
    assert shown["sha256"] == namespace.read(store[1]).identity.digest


def test_show_store(store: tuple[Path, Path, Path]) -> None:
    shown = json.loads(run("namespace", "show", store[0], "--json").stdout)
    assert [n["path"] for n in shown["namespaces"]] == sorted(str(p) for p in store[1:])
    (store[2] / MANIFEST_NAME).write_bytes(b"")
    done = run("namespace", "show", store[0])
    assert done.returncode == 0
    assert "Damaged: " in done.stdout
    assert store[1].name in done.stdout


def test_show_empty_store(tmp_path: Path) -> None:
    assert run("namespace", "show", tmp_path).stdout == f"There is no namespace in {tmp_path}.\n"


def test_diff(store: tuple[Path, Path, Path]) -> None:
    done = run("namespace", "diff", store[1], store[2], "--json")
    assert done.returncode == 1
    assert json.loads(done.stdout) == [{"path": "page_size", "left": "64", "right": "32"}]
    table = run("namespace", "diff", store[1], store[2]).stdout
    assert "page_size" in table
    assert "dtype" not in table
    same = run("namespace", "diff", store[1], store[1])
    assert (same.returncode, same.stdout) == (0, "The two identities are equal.\n")


def test_errors_are_sentences_with_status_2(store: tuple[Path, Path, Path]) -> None:
    missing = run("namespace", "diff", store[1], store[0] / "none")
    assert missing.returncode == 2
    assert missing.stderr == f"penny-cache: There is no namespace {store[0] / 'none'}.\n"
    (store[1] / MANIFEST_NAME).write_bytes((store[1] / MANIFEST_NAME).read_bytes()[:-1])
    torn = run("namespace", "show", store[1])
    assert torn.returncode == 2
    assert "is torn or was changed" in torn.stderr
    assert "Traceback" not in torn.stderr
    assert run("namespace", "show", store[0] / "none").returncode == 2
    assert run("namespace", "shwo", store[0]).returncode == 2


def test_version() -> None:
    assert run("--version").stdout == f"penny-cache {__version__}\n"


def test_help_and_usage_errors() -> None:
    shown = run("namespace", "--help")
    assert shown.returncode == 0
    assert "diff" in shown.stdout
    assert run("namespace", "--nonsense").returncode == 2
