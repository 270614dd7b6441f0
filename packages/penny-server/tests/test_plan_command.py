"""The command `penny plan`: what it prints, what it refuses, and that it stays light."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from penny_models.shapes import known_config
from penny_server.cli.run import run
from penny_server.errors import ExitCode
from penny_server.plan.constants import GIB


def refused(capsys: pytest.CaptureFixture[str], *argv: str) -> tuple[int, str]:
    code = run(["plan", *argv])
    return code, capsys.readouterr().err


def test_a_config_without_an_interval_ends_with_the_checkpoint_code(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    config = known_config("qwen38-27b")
    del config["text_config"]["full_attention_interval"]
    (tmp_path / "config.json").write_text(json.dumps(config), encoding="utf-8")
    code, error = refused(capsys, "qwen38-27b", "--config", str(tmp_path))
    assert code == ExitCode.CHECKPOINT
    assert "full_attention_interval is missing" in error
    code, error = refused(capsys, "qwen38-27b", "--config", str(tmp_path / "absent.json"))
    assert code == ExitCode.CHECKPOINT
    assert "cannot be read" in error


def test_usage_errors_of_the_command(capsys: pytest.CaptureFixture[str]) -> None:
    for argv, expected in (
        (("qwen38-27b", "--gpu", "a100"), "not known"),
        (("qwen38-27b", "--vram", "lots"), "takes a size"),
        (("qwen38-27b", "--gpu", "h200", "--vram", "80GiB"), "give one of them"),
        (("qwen38-27b", "--set", "max_total_tokens=1000"), "multiple of the page"),
        (("qwen38-27b", "--set", "max_mamba_cache_size=4"), "recurrent"),
        (("qwen39",), "no profile"),
    ):
        code, error = refused(capsys, *argv)
        assert code == ExitCode.USAGE
        assert expected in error


def test_the_command_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "tiny-27b", "--device", "cpu", "--vram", "8GiB", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["profile"] == "tiny-27b"
    assert (found["pool"]["tokens"], found["pool"]["slots"], found["pool"]["requests"]) == (16_384, 64, 8)
    # Two full-attention layers of one KV head of 128, in bfloat16.
    assert found["bytes_per_token"]["charged"] == 2 * 2 * 128 * 2
    assert sum(line["bytes"] for line in found["gpu"]) + found["gpu_free"] == 8 * GIB


def test_the_command_prints_a_table_and_a_picture(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "qwen38-27b", "--gpu", "h200", "--set", "max_running_requests=2"]) == 0
    text = capsys.readouterr().out
    assert "qwen38-27b on H200" in text
    assert "KV pool: " in text
    assert "What would make more fit" in text
    assert "mlp (fp8-block)" in text


def test_a_plan_imports_neither_torch_nor_sglang() -> None:
    script = (
        "import sys\n"
        "from penny_server.cli.run import run\n"
        "code = run(['plan', 'qwen38-27b-dflash2', '--json'])\n"
        "heavy = {'torch', 'sglang', 'transformers'} & set(sys.modules)\n"
        "sys.exit(f'{code} {heavy}' if code or heavy else 0)\n"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr


def test_every_profile_has_a_plan(capsys: pytest.CaptureFixture[str]) -> None:
    from penny_models import tiny
    from penny_server.profiles import load, names

    for name in names():
        checkpoint = load(name).model.tiny
        if checkpoint is not None and checkpoint not in tiny.names():
            assert run(["plan", name, "--gpu", "rtx-pro-6000", "--json"]) == 2
            assert f"The checkpoint {checkpoint} of the profile {name} is not in" in capsys.readouterr().err
            continue
        assert run(["plan", name, "--gpu", "rtx-pro-6000", "--json"]) == 0, capsys.readouterr().err
        found = json.loads(capsys.readouterr().out)
        assert found["pool"]["tokens"] > 0
