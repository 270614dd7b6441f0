"""The tool that counts lines of code and keeps the stated limit."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "size.py"
KERNELS = "packages/penny-kernels/src/penny_kernels/cpu"
SEAMS = "packages/penny-server/src/penny_server/sglang/seams"
NEXT = f"{SEAMS}/cpu_next.py"
DRAFTS = {f"{SEAMS}/cpu_spec.py": "n = 0\n", f"{SEAMS}/cpu_dflash.py": "n = 0\n"}

# Six lines of code: import, LIMIT, def, the two lines of `text`, return.
SIX = '''\
"""A docstring
of two lines."""

import os  # a comment beside code does not take the line away

# a comment

LIMIT = 3
"""A docstring of an attribute."""


def f() -> str:
    """A docstring."""
    text = """not a docstring,
# nor is this a comment"""

    return text
'''


def run(root: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, TOOL, root], capture_output=True, text=True, timeout=60, check=False
    )


def tree(root: Path, files: dict[str, str]) -> Path:
    for name, text in {NEXT: "n = 0\n", **DRAFTS, **files}.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def test_lines_of_code_are_those_counted_by_hand(tmp_path: Path) -> None:
    root = tree(
        tmp_path, {f"{KERNELS}/a.py": SIX, f"{KERNELS}/deep/b.py": "x = 1\n", f"{SEAMS}/cpu.py": "y = 2\n"}
    )
    lines = run(root).stdout.splitlines()
    assert lines[0] == f"    6  {KERNELS}/a.py"
    assert lines[6] == "    1  median of 6 files"
    assert lines[7] == "CPU operations and CPU seams: 8 of at most 1,200 lines of code."
    assert lines[8] == "CPU seams of Flash-Next: 1 of at most 80 lines of code."
    assert lines[9] == "CPU seams of speculation: 2 of at most 260 lines of code."


@pytest.mark.parametrize(
    ("seams", "status", "sentence"),
    [
        (1, 0, "1,200 of at most 1,200 lines of code."),
        (2, 1, "1,201 lines of code, 1 over the limit of 1,200."),
    ],
)
def test_the_limit_counts_both_folders_and_itself(
    tmp_path: Path, seams: int, status: int, sentence: str
) -> None:
    files = {f"{KERNELS}/a.py": "x = 1\n" * 1199, f"{SEAMS}/cpu_decode.py": "y = 2\n" * seams}
    result = run(tree(tmp_path, files | {f"{SEAMS}/seeds.py": "z = 3\n" * 50}))
    assert result.returncode == status
    assert sentence in result.stdout


def test_flash_next_has_a_limit_of_its_own(tmp_path: Path) -> None:
    files = {f"{KERNELS}/a.py": "x = 1\n", f"{SEAMS}/cpu_other.py": "y = 2\n", NEXT: "z = 3\n" * 81}
    result = run(tree(tmp_path, files))
    assert result.returncode == 1
    assert "CPU operations and CPU seams: 2 of at most" in result.stdout
    assert "CPU seams of Flash-Next: 81 lines of code, 1 over the limit of 80." in result.stdout


def test_speculation_has_a_limit_of_its_own(tmp_path: Path) -> None:
    files = {
        f"{KERNELS}/a.py": "x = 1\n",
        f"{SEAMS}/cpu_other.py": "y = 2\n",
        f"{SEAMS}/cpu_spec.py": "z = 3\n" * 260,
    }
    result = run(tree(tmp_path, files))
    assert result.returncode == 1
    assert "CPU operations and CPU seams: 2 of at most" in result.stdout
    assert "CPU seams of speculation: 261 lines of code, 1 over the limit of 260." in result.stdout


def test_a_limit_on_files_that_are_gone_is_a_failure(tmp_path: Path) -> None:
    result = run(tree(tmp_path, {f"{KERNELS}/a.py": "x = 1\n"}))
    assert result.returncode == 1
    assert "no file matches packages/penny-server" in result.stdout
