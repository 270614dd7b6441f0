"""The CPU seams of Flash-Next: stock cannot run these operations on a CPU, and with the seams they are right."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

from penny_server.serving.choose import surroundings
from penny_server.sglang.seams import cpu_next

SCRIPT = Path(__file__).parent / "fakes" / "next_on_cpu.py"


def test_each_seam_gives_what_stock_lacks() -> None:
    env = {"SGLANG_USE_CPU_ENGINE": "1", "PYTHONPATH": str(surroundings().standin), "OMP_NUM_THREADS": "1"}
    clean = {key: value for key, value in os.environ.items() if not key.startswith("PENNY_")}
    result = subprocess.run(
        [sys.executable, SCRIPT],
        capture_output=True,
        text=True,
        env={**clean, **env},
        timeout=300,
        check=False,
    )
    assert result.returncode == 0, result.stderr[-3000:]
    found = json.loads(next(line[1:] for line in result.stdout.splitlines() if line.startswith("@")))
    names = {seam.name for seam in cpu_next.SEAMS}
    assert set(found["stock"]) == names, "a seam without a case"
    # Three are Triton kernels, which find no GPU driver; the indexer has no CPU form.
    assert found["stock"] == {
        "cpu-next.sigmoid-gate": "RuntimeError",
        "cpu-next.qsa-indexer": "NotImplementedError",
        "cpu-next.qsa-keys": "RuntimeError",
        "cpu-next.shared-expert": "RuntimeError",
    }
    assert found["right"] == dict.fromkeys(names, True)
