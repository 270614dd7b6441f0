"""Which of FlashInfer's modules are one build: XQA's differ by width while a block has at most 32 rows."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
pytestmark = pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="benchmarks do not travel with the tests")
SETS = """
import argparse, json, sys
sys.path.insert(0, sys.argv[1])
import flashinfer_builds as builds
widths = list(range(2, 17))
asked = argparse.Namespace(modules=["topk", "xqa"], shape="27b", kv=["bf16", "fp8"], pages=[64], widths=widths)
found = {}
for spec in builds.specs(asked):
    assert not builds.complete(spec)
    found.setdefault(builds.same_build(spec), []).append(spec.name)
print(json.dumps(list(found.values())))
"""


def test_blocks_of_more_than_32_rows_are_one_build(tmp_path: Path) -> None:
    env = os.environ | {"FLASHINFER_WORKSPACE_BASE": str(tmp_path), "FLASHINFER_CUDA_ARCH_LIST": "9.0a"}
    command = [sys.executable, "-c", SETS, str(BENCHMARKS)]
    said = subprocess.run(command, env=env, capture_output=True, text=True, timeout=600, check=True).stdout
    found = json.loads(said.splitlines()[-1])
    # Six query heads for each key head: 2 to 5 tokens are at most 30 rows, 6 to 16 are 36 and more.
    assert [len(names) for names in found] == [1, 1, 1, 1, 1, 11, 1, 1, 1, 1, 11]
    assert found[0] == ["topk"]
    assert all("kv_cache_e4m3" in name and "page_size_64" in name for name in found[-1])
