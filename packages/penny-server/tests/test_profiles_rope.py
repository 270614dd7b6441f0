"""Long positions: the rotary tables of a launch beyond the native context, and the draft's own ones."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from penny_server.profiles import Launch, Surroundings, load, parse_overrides, resolve
from penny_server.profiles.options import compact
from penny_server.serving.choose import surroundings

# Stock's own arithmetic, a minute of it: no other Python gives another.
pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="one Python is enough for this")


SCRIPT = Path(__file__).parent / "fakes" / "long_positions.py"
ROPE = {
    "rope_type": "default",
    "rope_theta": 10000000,
    "partial_rotary_factor": 0.25,
    "mrope_section": [11, 11, 10],
    "mrope_interleaved": True,
}
TEXT = {
    "hidden_size": 512,
    "num_hidden_layers": 4,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "head_dim": 256,
    "full_attention_interval": 4,
    "max_position_embeddings": 262144,
    "partial_rotary_factor": 0.25,
    "rope_parameters": ROPE,
    "vocab_size": 1024,
}
QWEN35 = {
    "architectures": ["Qwen3_5ForConditionalGeneration"],
    "model_type": "qwen3_5",
    "text_config": {"model_type": "qwen3_5_text", "intermediate_size": 512, **TEXT},
}
QWEN4 = {
    "architectures": ["Qwen4ExpForConditionalGeneration"],
    "model_type": "qwen4_exp",
    "text_config": {"model_type": "qwen4_exp_text", "hc_count": 4, **TEXT},
}
DRAFT = {
    "architectures": ["DFlash2DraftModel"],
    "model_type": "qwen3",
    "hidden_size": 512,
    "num_hidden_layers": 5,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 128,
    "max_position_embeddings": 262144,
    "rope_theta": 10000000,
    "vocab_size": 1024,
    "dflash_config": {"block_size": 8, "target_layer_ids": [1, 2], "mask_token_id": 7},
}
DRAFT_ROPE = {
    "rope_type": "yarn",
    "rope_theta": 10000000,
    "factor": 2.0,
    "original_max_position_embeddings": 262144,
}
FLOAT32_ANGLES = 0.04
"""Both libraries multiply position and frequency in float32: 524,287 x 1.0 x 2^-24 = 0.031 radians, and cosines times
1.07, are what that can cost against the exact angle."""


def folder(path: Path, config: dict) -> Path:
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    return path


def launch_of(profile: str, target: Path, draft: Path | None = None, settings: Sequence[str] = ()) -> Launch:
    asked = [*settings, *([f"speculative_draft_model_path={draft}"] if draft else [])]
    return resolve(load(profile), "cuda", target, Surroundings(Path("/s"), 1), parse_overrides(asked))


def found(family: str, launch: Launch, draft: Path | None = None, *, features: bool = True) -> dict:
    names = ("PENNY_DRAFT_PATH", "PENNY_DRAFT_OVERRIDES")
    env = {name: launch.env[name] for name in names if features and name in launch.env}
    if features and draft:
        assert "draft-overrides" in launch.features
        env["PENNY_FEATURES"] = "draft-overrides"
    env |= {"SGLANG_USE_CPU_ENGINE": "1", "PYTHONPATH": str(surroundings().standin), "OMP_NUM_THREADS": "1"}
    overrides = compact(launch.settings["json_model_override_args"])
    command = [sys.executable, SCRIPT, family, str(launch.checkpoint), str(draft or ""), overrides]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env}, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
    return json.loads(result.stdout.splitlines()[-1])


def assert_equal_tables(tables: dict, rows: int = 524_288) -> None:
    assert tables["rows"] == rows, "the table must not grow while serving: graphs hold its address"
    assert tables["equal"]
    assert tables["equal_bfloat16"]
    assert tables["from_formula"] < FLOAT32_ANGLES


def test_flash_next(tmp_path: Path) -> None:
    target = folder(tmp_path / "target", QWEN4)
    tables = found("qwen4_exp", launch_of("flash-next", target))
    assert_equal_tables(tables["target"])
    assert tables["target"]["three_axes"] < 1e-5


def test_27b_and_its_draft(tmp_path: Path) -> None:
    target, draft = folder(tmp_path / "target", QWEN35), folder(tmp_path / "draft", DRAFT)
    expected = {**DRAFT, "rope_parameters": DRAFT_ROPE, "max_position_embeddings": 524288}
    (draft / "expected.json").write_text(json.dumps(expected))
    tables = found("qwen3_5", launch_of("qwen38-27b-dflash2", target, draft), draft)
    assert_equal_tables(tables["target"])
    assert tables["target"]["three_axes"] < 1e-5
    assert_equal_tables(tables["draft"])
    assert tables["draft_text_config"] is None


def test_draft_keeps_its_own_overrides_when_the_targets_change(tmp_path: Path) -> None:
    """The target reaches four times its native context here; the draft's table stays that of its own factor 2."""
    target, draft = folder(tmp_path / "target", QWEN35), folder(tmp_path / "draft", DRAFT)
    expected = {**DRAFT, "rope_parameters": DRAFT_ROPE, "max_position_embeddings": 524288}
    (draft / "expected.json").write_text(json.dumps(expected))
    rope = {**ROPE, "rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 262144}
    other = compact({"text_config": {"max_position_embeddings": 1048576, "rope_parameters": rope}})
    launch = launch_of("qwen38-27b-dflash2", target, draft, [f"json_model_override_args={other}"])
    tables = found("qwen3_5", launch, draft)
    assert_equal_tables(tables["target"], rows=1_048_576)
    assert_equal_tables(tables["draft"])
    stock = found("qwen3_5", launch, draft, features=False)
    assert stock["draft_text_config"]["rope_parameters"]["factor"] == 4.0, "stock is right by itself now"
    assert stock["draft_rope"]["rope_type"] == "default"


@pytest.mark.parametrize(("factor", "length"), [(4, 1_048_576), (1.5, 393_216)])
def test_yarn_factor_reaches_target_and_draft(factor: float, length: int) -> None:
    launch = launch_of("qwen38-27b-dflash2", Path("/m"), Path("/d"), [f"yarn_factor={factor}"])
    target = launch.settings["json_model_override_args"]["text_config"]
    draft = json.loads(launch.env["PENNY_DRAFT_OVERRIDES"])
    for config in (target, draft):
        assert config["rope_parameters"]["factor"] == factor
        assert config["rope_parameters"]["original_max_position_embeddings"] == 262144
        assert config["max_position_embeddings"] == length
    assert launch.env["PENNY_DRAFT_PATH"] == "/d"
