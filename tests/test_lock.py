"""The tool that writes and checks the index-neutral uv.lock, on a lock file small enough to read."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path
from types import ModuleType

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "lock.py"

AS_UV_WRITES_IT = """\
version = 1
requires-python = ">=3.11"

[manifest]
members = ["ours"]

[[package]]
name = "anyio"
version = "4.0.0"
source = { registry = "https://mirror.example/pypi/simple" }
dependencies = [
    { name = "idna" },
]
sdist = { url = "https://files.example/aa/bb/anyio-4.0.0.tar.gz", hash = "sha256:11", size = 10 }
wheels = [
    { url = "https://files.example/cc/anyio-4.0.0-py3-none-any.whl", hash = "sha256:22", size = 20 },
]

[package.optional-dependencies]
trio = [
    { name = "trio" },
]

[[package]]
name = "ours"
source = { editable = "packages/ours" }
dependencies = [
    { name = "anyio" },
]

[package.metadata]
requires-dist = [{ name = "anyio", specifier = ">=4" }]

[package.metadata.requires-dev]
dev = [{ name = "nox" }]

[[package]]
name = "torch"
version = "2.0.0"
source = { registry = "https://mirror.example/pypi/simple" }
wheels = [
    { url = "https://files.example/torch-2.0.0%2Bcpu-cp311-cp311-linux_x86_64.whl", hash = "sha256:33" },
]
"""

NEUTRAL = """\
version = 1
requires-python = ">=3.11"

[manifest]
members = ["ours"]

[[package]]
name = "anyio"
version = "4.0.0"
source = { registry = "https://index.invalid/simple" }
dependencies = [
    { name = "idna" },
]
sdist = { url = "https://index.invalid/anyio-4.0.0.tar.gz", hash = "sha256:11", size = 10 }
wheels = [
    { url = "https://index.invalid/anyio-4.0.0-py3-none-any.whl", hash = "sha256:22", size = 20 },
]

[package.optional-dependencies]
trio = [
    { name = "trio" },
]

[[package]]
name = "ours"
source = { editable = "packages/ours" }
dependencies = [
    { name = "anyio" },
]

[[package]]
name = "torch"
version = "2.0.0"
source = { registry = "https://index.invalid/simple" }
wheels = [
    { url = "https://index.invalid/torch-2.0.0%2Bcpu-cp311-cp311-linux_x86_64.whl", hash = "sha256:33" },
]
"""


@pytest.fixture
def lock() -> ModuleType:
    spec = importlib.util.spec_from_file_location("lock_tool", TOOL)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def fake_uv(
    monkeypatch: pytest.MonkeyPatch, lock: ModuleType, returncode: int, stderr: str, text: str
) -> None:
    """Stand in for `uv lock`: it leaves `text` as the lock file of the folder it is called in."""

    def run(folder: Path) -> subprocess.CompletedProcess[str]:
        (folder / "uv.lock").write_text(text)
        return subprocess.CompletedProcess(["uv", "lock"], returncode, "", stderr)

    monkeypatch.setattr(lock, "_uv_lock", run)


def test_neutralise_gives_the_text_written_by_hand(lock: ModuleType) -> None:
    assert lock.neutralise(AS_UV_WRITES_IT) == NEUTRAL
    assert lock.neutralise(NEUTRAL) == NEUTRAL


def test_neutral_text_has_no_complaint_and_uvs_has_one_for_each_place(lock: ModuleType) -> None:
    assert list(lock.complaints(NEUTRAL)) == []
    found = list(lock.complaints(AS_UV_WRITES_IT))
    assert len(found) == 6  # two registries, three artifacts, one metadata table
    assert "anyio names the index https://mirror.example/pypi/simple; expected" in found[0]
    assert sum("artifact address https://files.example/" in sentence for sentence in found) == 3
    assert sum("[package.metadata]" in sentence for sentence in found) == 1


@pytest.mark.parametrize(
    ("good", "bad"),
    [
        ("https://index.invalid/anyio-4.0.0.tar.gz", "https://index.invalid/deep/anyio-4.0.0.tar.gz"),
        ("https://index.invalid/anyio-4.0.0.tar.gz", "https://index.invalid.example/anyio-4.0.0.tar.gz"),
        ('registry = "https://index.invalid/simple"', 'git = "https://git.example/anyio"'),
    ],
)
def test_one_address_that_is_not_neutral_is_found(lock: ModuleType, good: str, bad: str) -> None:
    assert len(list(lock.complaints(NEUTRAL.replace(good, bad, 1)))) == 1


def test_versions_leave_out_workspace_members_and_keep_forks(lock: ModuleType) -> None:
    forked = NEUTRAL + NEUTRAL[NEUTRAL.index('[[package]]\nname = "torch"') :].replace("2.0.0", "2.1.0")
    assert lock.versions(forked) == {"anyio": {"4.0.0"}, "torch": {"2.0.0", "2.1.0"}}


def test_check_passes_when_a_resolution_keeps_the_versions(
    lock: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "uv.lock").write_text(NEUTRAL)
    fake_uv(monkeypatch, lock, 0, "", AS_UV_WRITES_IT)
    assert lock.main(["check", "--file", str(tmp_path / "uv.lock")]) == 0
    assert "keeps all 2 packages at their locked versions" in capsys.readouterr().out


def test_check_names_the_package_that_no_longer_fits(
    lock: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "uv.lock").write_text(NEUTRAL)
    fake_uv(monkeypatch, lock, 0, "", AS_UV_WRITES_IT.replace('"4.0.0"', '"4.1.0"'))
    assert lock.main(["check", "--file", str(tmp_path / "uv.lock")]) == 1
    error = capsys.readouterr().err
    assert "anyio: the lock has 4.0.0, the pyproject.toml files give 4.1.0." in error
    assert "Run `python tools/lock.py write`" in error


def test_check_without_an_index_says_that_versions_were_not_checked(
    lock: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "uv.lock").write_text(NEUTRAL)
    fake_uv(monkeypatch, lock, 2, "error: Failed to fetch: `https://mirror.example/simple/idna/`", NEUTRAL)
    assert lock.main(["check", "--file", str(tmp_path / "uv.lock")]) == 0
    assert "NOT checked" in capsys.readouterr().out


def test_check_fails_with_what_uv_says_when_the_requirements_conflict(
    lock: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "uv.lock").write_text(NEUTRAL)
    fake_uv(monkeypatch, lock, 1, "No solution found when resolving dependencies", NEUTRAL)
    assert lock.main(["check", "--file", str(tmp_path / "uv.lock")]) == 1
    assert "No solution found" in capsys.readouterr().err


def test_check_refuses_a_lock_that_names_an_index(
    lock: ModuleType, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "uv.lock").write_text(AS_UV_WRITES_IT)
    assert lock.main(["check", "--file", str(tmp_path / "uv.lock")]) == 1
    assert "6 such places in all" in capsys.readouterr().err
