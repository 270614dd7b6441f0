"""The tools beside the lock tool: what a wheel may contain, the sum of the sessions' test counts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

TOOLS = Path(__file__).parents[1] / "tools"
INFO = "penny_cache-0.1.0.dist-info"
GOOD_WHEEL = [
    "penny_cache/__init__.py",
    "penny_cache/py.typed",
    f"{INFO}/METADATA",
    f"{INFO}/licenses/LICENSE",
    f"{INFO}/licenses/NOTICE",
]
REPORT = """<?xml version="1.0"?><testsuites><testsuite name="pytest" errors="{errors}" failures="{failures}"
 skipped="{skipped}" tests="{tests}" time="1.0"></testsuite></testsuites>"""


def run(tool: str, argument: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TOOLS / tool), str(argument)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def make_wheel(folder: Path, names: list[str]) -> Path:
    path = folder / "penny_cache-0.1.0-py3-none-any.whl"
    with ZipFile(path, "w") as wheel:
        for name in names:
            wheel.writestr(name, "")
    return path


def installed_record(folder: Path, record: str) -> str:
    """Install nothing but a RECORD of penny_cache under `folder`; return a path for PYTHONPATH."""
    info = folder / "site" / INFO
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.3\nName: penny-cache\nVersion: 0.1.0\n")
    (info / "RECORD").write_text(record)
    return str(info.parent)


@pytest.mark.parametrize(
    ("digest", "status", "said"),
    [("new", 0, ""), ("old", 1, "1 files differ, as penny_cache/__init__.py.")],
    ids=["the same build", "another build"],
)
def test_an_installed_package_of_another_build_is_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, digest: str, status: int, said: str
) -> None:
    line = "penny_cache/__init__.py,sha256={},5\n"
    with ZipFile(tmp_path / "penny_cache-0.1.0-py3-none-any.whl", "w") as wheel:
        wheel.writestr(f"{INFO}/RECORD", line.format("new"))
    site = installed_record(tmp_path, line.format(digest) + f"{INFO}/INSTALLER,sha256=x,2\n")
    monkeypatch.setenv("PYTHONPATH", site)
    result = run("installed.py", tmp_path)
    assert result.returncode == status, result.stderr
    assert said in result.stdout


def test_a_right_wheel_passes(tmp_path: Path) -> None:
    result = run("wheel.py", make_wheel(tmp_path, GOOD_WHEEL))
    assert result.returncode == 0
    assert "5 files" in result.stdout


@pytest.mark.parametrize(
    ("names", "sentence"),
    [
        ([n for n in GOOD_WHEEL if not n.endswith("py.typed")], "penny_cache/py.typed is missing."),
        ([n for n in GOOD_WHEEL if not n.endswith("LICENSE")], "The licence file LICENSE is missing."),
        ([*GOOD_WHEEL, "tests/test_store.py"], "tests/test_store.py lies outside penny_cache."),
        ([*GOOD_WHEEL, "penny_cache/tests/data.py"], "penny_cache/tests/data.py is a test"),
        ([*GOOD_WHEEL, "penny_cache/test_store.py"], "penny_cache/test_store.py is a test"),
    ],
)
def test_a_wrong_wheel_is_refused_with_a_sentence(tmp_path: Path, names: list[str], sentence: str) -> None:
    result = run("wheel.py", make_wheel(tmp_path, names))
    assert result.returncode == 1
    assert sentence in result.stdout


def test_totals_add_up_and_end_with_one_plain_line(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(REPORT.format(tests=10, failures=0, errors=0, skipped=2))
    (tmp_path / "b.xml").write_text(REPORT.format(tests=5, failures=0, errors=0, skipped=0))
    result = run("totals.py", tmp_path)
    assert result.returncode == 0
    assert result.stdout.splitlines()[-1] == "13 passed, 0 failed, 2 skipped"


def test_totals_count_errors_as_failed_and_exit_with_one(tmp_path: Path) -> None:
    (tmp_path / "a.xml").write_text(REPORT.format(tests=10, failures=1, errors=2, skipped=3))
    result = run("totals.py", tmp_path)
    assert result.returncode == 1
    assert result.stdout.splitlines()[-1] == "4 passed, 3 failed, 3 skipped"


def test_totals_of_nothing_is_a_failure(tmp_path: Path) -> None:
    result = run("totals.py", tmp_path)
    assert result.returncode == 1
    assert result.stdout.splitlines()[-1] == "0 passed, 0 failed, 0 skipped"
