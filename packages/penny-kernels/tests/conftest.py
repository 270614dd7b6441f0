"""Shared inputs: the recorded Triton twins, and ragged batches."""

import importlib.util
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(7)


@pytest.fixture(scope="session")
def twins(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list]:
    """What stock's Triton kernels did on random inputs: name -> [(inputs, outputs)]; about a minute to
    make.
    """
    if importlib.util.find_spec("sglang") is None:
        pytest.skip("the Triton twins are stock SGLang's, and sglang is not installed")
    out = tmp_path_factory.mktemp("twins") / "twins.pt"
    env = {k: v for k, v in os.environ.items() if k not in ("SGLANG_USE_CPU_ENGINE", "PYTHONPATH")}
    env |= {"TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"}
    script = Path(__file__).parent / "triton_twins.py"
    run = subprocess.run(
        [sys.executable, str(script), str(out)], env=env, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr[-4000:]
    return torch.load(out)
