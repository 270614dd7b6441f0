"""The DFlash2 draft of ``tiny-27b``: a whole run, its files and its command."""

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file
from small_draft import filled
from torch import Tensor
from typer.testing import CliRunner

from penny_models import tiny
from penny_models.shapes.draft import dflash_parts, read_dflash
from penny_models.shapes.storage import unquantised
from penny_models.training.__main__ import app
from penny_models.training.data import write_json
from penny_models.training.dflash.batches import Sizes
from penny_models.training.dflash.config import DraftShape, draft_config
from penny_models.training.dflash.export import read_draft, write_draft
from penny_models.training.dflash.model import DraftModel
from penny_models.training.dflash.train import Measure, train_draft
from penny_models.training.processors import Json
from penny_models.training.shards import TokenStream, save_streams

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def config() -> Json:
    return draft_config(json.loads((tiny.path("tiny-27b") / "config.json").read_text()))


def write_data(folder: Path, streams: dict[str, TokenStream]) -> None:
    """Write a data folder of the tests' own texts."""
    save_streams(folder / "train.npz", {"train": streams["code"]})
    save_streams(folder / "held_out.npz", {kind: streams[kind] for kind in ("prose", "chat")})
    write_json(folder / "manifest.json", {"name": "tiny-27b", "train_tokens_sha256": "ab" * 32})


SMALL_SIZES = Sizes(
    continuations=4,
    generated=2,
    prompts=(40, 44),
    length=64,
    rows=2,
    blocks=12,
    text_length=128,
    text_rows=1,
    text_blocks=16,
)


def test_the_export_has_sglangs_names_and_is_small(config: Json, tmp_path: Path) -> None:
    draft = filled(DraftModel(DraftShape.read(config)), 7)
    shards = write_draft(draft, config, tmp_path)
    tensors: dict[str, Tensor] = {}
    for shard in shards:
        assert shard.stat().st_size < 4_000_000
        tensors |= load_file(shard)
    assert sum(file.stat().st_size for file in tmp_path.iterdir()) <= 5_000_000
    # SGLang ignores a name that it does not know and does not miss one, so every name is written down here.
    layer = {
        "input_layernorm.weight",
        "post_attention_layernorm.weight",
        *(
            f"self_attn.{name}.weight"
            for name in ("q_proj", "k_proj", "v_proj", "o_proj", "q_norm", "k_norm")
        ),
        *(f"mlp.{name}.weight" for name in ("gate_proj", "up_proj", "down_proj")),
        *(
            f"{c}.{n}"
            for c in ("attention_conv", "mlp_conv")
            for n in ("base_kernel", "kernel_projection.weight")
        ),
    }
    whole = {"fc.weight", "hidden_norm.weight", "norm.weight"} | {
        f"candidate_selector.{name}"
        for name in ("predecessor_codebook", "successor_codebook", "hidden_projection.weight")
    }
    assert set(tensors) == whole | {f"layers.{index}.{name}" for index in range(4) for name in layer}
    assert {value.dtype for value in tensors.values()} == {torch.bfloat16}
    parts = dflash_parts(read_dflash(config, tmp_path / "config.json"), unquantised("bfloat16"))
    assert sum(value.numel() * 2 for value in tensors.values()) == sum(part.bytes for part in parts)

    other = DraftModel(DraftShape.read(config))
    read_draft(other, tmp_path)
    for name, value in draft.state_dict().items():
        assert torch.equal(other.state_dict()[name], value.bfloat16().float())


def test_a_draft_that_is_too_large_is_not_written(config: Json, tmp_path: Path) -> None:
    config = json.loads(json.dumps(config))
    config["dflash_config"]["selector_rank"] = 160
    with pytest.raises(ValueError, match="smaller selector rank"):
        write_draft(DraftModel(DraftShape.read(config)), config, tmp_path / "draft")
    assert not (tmp_path / "draft").exists()


def test_a_whole_run_is_repeated_by_its_seed(own_streams: dict[str, TokenStream], tmp_path: Path) -> None:
    write_data(tmp_path, own_streams)
    outs = [tmp_path / "first", tmp_path / "second"]
    runs = [
        train_draft(
            tmp_path,
            tiny.path("tiny-27b"),
            out,
            steps=2,
            sizes=SMALL_SIZES,
            measured=Measure(2, 32, 16),
            seed=3,
        )
        for out in outs
    ]
    assert runs[0]["steps"] == 2
    assert runs[0]["acceptance"] == runs[1]["acceptance"]
    assert set(runs[0]["acceptance"]["temperature_0"]) == {"prose", "chat", "all"}
    first, second = ((out / "model-00001-of-00001.safetensors").read_bytes() for out in outs)
    assert first == second
    curve = json.loads((outs[0] / "loss_curve.json").read_text())
    assert curve["columns"] == ["step", "seconds", "rate", "unary", "selector"]
    written = json.loads((outs[0] / "results.json").read_text())
    assert written["train_tokens_sha256"] == "ab" * 32
    assert written["acceptance"] == runs[0]["acceptance"]


def test_the_command_trains_a_small_draft(
    own_streams: dict[str, TokenStream], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sizes, "small", classmethod(lambda cls: SMALL_SIZES))
    write_data(tmp_path, own_streams)
    options = ["--out", str(tmp_path / "out"), "--steps", "1", "--small"]
    result = CliRunner().invoke(app, ["dflash", str(tmp_path), str(tiny.path("tiny-27b")), *options])
    assert result.exit_code == 0, result.output
    acceptance = json.loads(result.output[result.output.index("{") :])
    assert 1.0 <= acceptance["temperature_0"]["all"]["tokens_per_verify"] <= 8.0
    assert json.loads((tmp_path / "out" / "config.json").read_text())["architectures"] == [
        "DFlash2DraftModel"
    ]
