"""Stock SGLang takes every profile as it is: its own resolution, told that the GPU is one of the profile's kind."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from penny_server.profiles import Surroundings, load, parse_overrides, resolve
from penny_server.serving.choose import surroundings

# Stock's own arithmetic, a minute of it: no other Python gives another.
pytestmark = pytest.mark.skipif(sys.version_info[:2] != (3, 11), reason="one Python is enough for this")


SCRIPT = Path(__file__).parent / "fakes" / "stock_resolves.py"
ROPE = {
    "rope_type": "default",
    "rope_theta": 10000000,
    "partial_rotary_factor": 0.25,
    "mrope_section": [11, 11, 10],
    "mrope_interleaved": True,
}
BOTH = {
    "head_dim": 256,
    "num_attention_heads": 24,
    "full_attention_interval": 4,
    "linear_num_key_heads": 16,
    "linear_num_value_heads": 48,
    "linear_key_head_dim": 128,
    "linear_value_head_dim": 128,
    "linear_conv_kernel_dim": 4,
    "vocab_size": 248320,
    "max_position_embeddings": 262144,
    "partial_rotary_factor": 0.25,
    "rope_parameters": ROPE,
    "eos_token_id": 248044,
    "num_nextn_predict_layers": 1,
}
DENSE = {
    "model_type": "qwen3_5_text",
    "hidden_size": 5120,
    "intermediate_size": 17408,
    "num_hidden_layers": 64,
    "num_key_value_heads": 4,
    **BOTH,
}
SPARSE = {
    "model_type": "qwen4_exp_text",
    "hidden_size": 2560,
    "num_hidden_layers": 48,
    "num_key_value_heads": 2,
    "num_experts": 512,
    "num_experts_per_tok": 10,
    "moe_intermediate_size": 640,
    "shared_expert_intermediate_size": 640,
    "hc_count": 4,
    "hc_lowrank": 320,
    "ple_layer_ids": [2],
    "ple_embed_dim": 2560,
    "indexer_n_heads": 4,
    "indexer_kv_heads": 1,
    "indexer_head_dim": 128,
    "indexer_budget": 2048,
    "indexer_compress_ratio": 4,
    **BOTH,
}
DRAFT = {
    "architectures": ["DFlash2DraftModel"],
    "model_type": "qwen3",
    "hidden_size": 5120,
    "intermediate_size": 17408,
    "num_hidden_layers": 5,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 248320,
    "max_position_embeddings": 262144,
    "rope_theta": 10000000,
    "block_size": 8,
    "dflash_config": {"block_size": 8, "target_layer_ids": [1, 16, 31, 46, 61], "mask_token_id": 248070},
}
FAMILIES = {
    "flash-next": ("Qwen4ExpForConditionalGeneration", "qwen4_exp", SPARSE),
    "27b": ("Qwen3_5ForConditionalGeneration", "qwen3_5", DENSE),
}
CASES = [
    ("flash-next-frspec", ()),
    ("flash-next", ()),
    ("flash-next-c6", ()),
    ("flash-next-1m", ()),
    ("flash-next", ("tp_size=2",)),
    ("flash-next", ("speculative_algorithm=",)),
    ("qwen38-27b-dflash2", ()),
    ("swift-27b", ()),
    ("qwen38-27b-dflash2", ("tp_size=2",)),
    ("qwen38-27b", ()),
]
STOCKS_NAMES: dict[str, Any] = {
    # The same choice by another name: NEXTN is EAGLE with the model's own layer, and "unquant" is kept as None.
    "speculative_algorithm": ["NEXTN", "EAGLE"],
    "speculative_draft_model_quantization": ["unquant", None],
}


def folder(path: Path, config: dict[str, Any]) -> Path:
    path.mkdir()
    (path / "config.json").write_text(json.dumps(config))
    return path


@pytest.fixture(scope="module")
def resolved(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What stock makes of every case, from one process."""
    root = tmp_path_factory.mktemp("configs")
    folders = {
        name: folder(
            root / name,
            {"architectures": [arch], "model_type": kind, "language_model_only": True, "text_config": text},
        )
        for name, (arch, kind, text) in FAMILIES.items()
    }
    draft = folder(root / "draft", DRAFT)
    launches = []
    for name, settings in CASES:
        family = "flash-next" if name.startswith("flash") else "27b"
        # The template is a file of a feature that is not built, the map one that its user builds.
        asked = ["chat_template=", "speculative_token_map=", *settings]
        asked += [f"speculative_draft_model_path={draft}"] if load(name).draft else []
        launch = resolve(
            load(name), "cuda", folders[family], Surroundings(Path("/s"), 1), parse_overrides(asked)
        )
        env = {key: value for key, value in launch.env.items() if key != "PENNY_FEATURES"}
        launches.append({"args": launch.args, "settings": dict(launch.settings), "env": env})
    (root / "launches.json").write_text(json.dumps(launches))
    env = {"SGLANG_USE_CPU_ENGINE": "1", "PYTHONPATH": str(surroundings().standin), "OMP_NUM_THREADS": "1"}
    env |= {"PENNY_FEATURES": "draft-overrides", "HF_HUB_OFFLINE": "1"}
    command = [sys.executable, SCRIPT, root / "launches.json"]
    result = subprocess.run(command, capture_output=True, text=True, env={**os.environ, **env}, check=False)
    assert result.returncode == 0, result.stderr[-3000:]
    return [json.loads(line[1:]) for line in result.stdout.splitlines() if line.startswith("@")]


@pytest.mark.parametrize("at", range(len(CASES)), ids=[" ".join([name, *rest]) for name, rest in CASES])
def test_stock_changes_nothing_of_a_profile(at: int, resolved: list[dict[str, Any]]) -> None:
    changed = {key: pair for key, pair in resolved[at]["changed"].items() if STOCKS_NAMES.get(key) != pair}
    assert changed == {}


def test_prefill_batch_is_the_references(resolved: list[dict[str, Any]]) -> None:
    """The reference states 16,384 for Flash-Next, where it sets none, and 2,048 for the 27B."""
    assert resolved[0]["max_prefill_tokens"] == 16384
    assert resolved[6]["max_prefill_tokens"] == 2048
