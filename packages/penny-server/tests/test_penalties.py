"""The penalties' seams against stock's penalizers, in a process of their own: importing SGLang sets variables."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

CASES = Path(__file__).with_name("stock_penalties.py")


def test_penalties_against_stocks_own(tmp_path: Path) -> None:
    options = [
        "-q",
        "-p",
        "no:cacheprovider",
        "-p",
        "no:xdist",
        "--import-mode=importlib",
        f"--basetemp={tmp_path / 'own'}",
    ]
    plain = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *options, f"--rootdir={CASES.parent}", str(CASES)],
        capture_output=True, text=True, env=plain, timeout=600, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr
    assert "9 passed" in done.stdout
