"""Sampling with drafts leaves the target's distribution: the short form of ``benchmarks/sampling_lossless.py``."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).parents[2] / "benchmarks" / "sampling_lossless.py"
DRAWS = 750
"""For each of the two prompts."""


def test_sampled_answers_have_transformers_probabilities(drafting, tmp_path) -> None:
    """DFlash draws with seeds of its own: right code fails one run in ten thousand. Argmax in verification gives 0."""
    out = tmp_path / "sampling.json"
    command = [sys.executable, str(SCRIPT), "--url", drafting.url, "--name", "drafting", "--out", str(out)]
    subprocess.run([*command, "--draws", str(DRAWS)], check=True)
    result = json.loads(out.read_text())
    for case in result["cases"]:
        assert case["test"]["draws"] == DRAWS
        assert case["test"]["cells"] > 40
        assert case["test"]["outside"] == 0
        assert case["verifies"] > DRAWS  # drafts were verified, and some taken:
        assert case["tokens_per_verify"] > 1.1
    assert result["least_corrected_p"] > 1e-4
