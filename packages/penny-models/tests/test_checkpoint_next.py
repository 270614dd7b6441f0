"""The check of Flash-Next checkpoints: its list of tensors is transformers' own, and a damaged one is refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import Qwen4ExpConfig, Qwen4ExpForConditionalGeneration

from penny_models import CheckpointError, check_checkpoint, tiny
from penny_models.checkpoint.expected_next import OPTIONAL_BUFFERS, NextForm, next_mtp_tensors, next_tensors
from penny_models.checkpoint.vision import vision_tensors
from penny_models.shapes import known_config, read_text
from penny_models.training.export import write_checkpoint
from penny_models.training.next.config import model_config
from penny_models.training.next.model import TinyNext

WHERE = Path("config.json")


def expected_of(config: dict[str, Any], parts: int) -> dict[str, tuple[int, ...]]:
    shape = read_text(config, WHERE)
    tower = vision_tensors(config["vision_config"], WHERE)
    return next_tensors(shape, "model.language_model.", NextForm((), parts)) | tower


@pytest.mark.parametrize(
    ("config", "parts"),
    [(model_config(), 4), (known_config("flash-next-nvfp4"), 128)],
    ids=["tiny-next", "flash-next"],
)
def test_expected_tensors_are_those_of_transformers(config: dict[str, Any], parts: int) -> None:
    whole = {key: value for key, value in config.items() if key != "quantization_config"}
    with torch.device("meta"):
        model = Qwen4ExpForConditionalGeneration(Qwen4ExpConfig(**json.loads(json.dumps(whole))))
    truth = {
        name: tuple(tensor.shape)
        for name, tensor in model.state_dict().items()
        if not name.endswith(OPTIONAL_BUFFERS)
    }
    found = expected_of(config, parts)
    table = "model.language_model.layers.1.ple.ple_embedding.ngram_embedding."
    rows, width = truth.pop(f"{table}weight")
    shards = [found.pop(f"{table}shard_{index}.weight") for index in range(parts)]
    assert sum(shard[0] for shard in shards) == rows
    assert {shard[1] for shard in shards} == {width}
    # All shards but the last are of one size, rounded up.
    assert {shard[0] for shard in shards[:-1]} == {-(-rows // parts)}
    if config["text_config"].get("ple_embedding_dtype"):
        assert found.pop(f"{table}weight_scale") == (1,)
    assert found == truth


def test_the_mtp_layer_is_a_qsa_layer_of_the_model() -> None:
    shape = read_text(model_config(), WHERE)
    form = NextForm((), 4)
    mtp = next_mtp_tensors(shape, form)
    prefix = "model.layers.2."
    layer = {
        name.replace(prefix, "mtp.layers.0."): size
        for name, size in next_tensors(shape, "model.", form).items()
        if name.startswith(prefix)
    }
    assert len(layer) == 24
    around = {name: size for name, size in mtp.items() if name not in layer}
    assert {name: size for name, size in mtp.items() if name in layer} == layer
    # As SGLang's qwen4_exp_mtp.py builds them: two projections, two norms, and the mixer of the four streams.
    assert around == {
        "mtp.fc_embedding.weight": (128, 128),
        "mtp.fc_hidden.weight": (128, 128),
        "mtp.pre_fc_norm_embedding.weight": (128,),
        "mtp.pre_fc_norm_hidden.weight": (512,),
        "mtp.hyper_connection_mixer.hc_norm.weight": (512,),
        "mtp.hyper_connection_mixer.input_mix_weight_down.weight": (16, 512),
        "mtp.hyper_connection_mixer.input_mix_weight_up.weight": (512, 16),
    }


def test_experts_may_come_one_by_one() -> None:
    shape = read_text(model_config(), WHERE)
    prefix = "model.layers.0.mlp.experts."
    fused = next_tensors(shape, "model.", NextForm((), 4))
    single = next_tensors(shape, "model.", NextForm({f"{prefix}0.gate_proj.weight"}, 4))
    assert fused[f"{prefix}gate_up_proj"] == (8, 128, 128)
    assert f"{prefix}gate_up_proj" not in single
    assert single[f"{prefix}7.gate_proj.weight"] == single[f"{prefix}7.up_proj.weight"] == (64, 128)
    assert single[f"{prefix}7.down_proj.weight"] == (128, 64)


@pytest.fixture(scope="module")
def untrained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("next") / "checkpoint"
    torch.manual_seed(0)
    write_checkpoint(TinyNext(), folder)
    (folder / "config.json").write_text(json.dumps(model_config()))
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(tiny.path("tiny-27b") / name, folder / name)
    return folder


@pytest.fixture
def copy(untrained: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(untrained, tmp_path / "copy"))


def rewrite(folder: Path, change: Callable[[dict[str, Tensor]], None]) -> None:
    """Change the tensors of a checkpoint, and write them to one file without an index."""
    tensors: dict[str, Tensor] = {}
    for shard in folder.glob("*.safetensors"):
        tensors |= load_file(shard)
        shard.unlink()
    (folder / "model.safetensors.index.json").unlink()
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def test_a_whole_checkpoint_passes(untrained: Path) -> None:
    report = check_checkpoint(untrained)
    assert report.architecture == "Qwen4ExpForConditionalGeneration"
    assert (report.mtp_layers, report.warnings) == (1, ())
    assert report.dtypes["I64"] == 3  # the hash constants of PLE, which nothing needs


@pytest.mark.parametrize(
    "name",
    [
        "mtp.fc_hidden.weight",
        "model.language_model.layers.2.self_attn.indexer.index_qk_proj.weight",
        "model.language_model.layers.1.ple.ple_embedding.ngram_embedding.shard_3.weight",
        "model.language_model.layers.5.mlp.experts.down_proj",
        "model.language_model.layers.0.attn_hyper_connection.block_inject_weight.weight",
    ],
)
def test_a_missing_tensor_is_named(copy: Path, name: str) -> None:
    rewrite(copy, lambda tensors: tensors.pop(name))
    with pytest.raises(CheckpointError, match=f"lacks 1 tensor of the .*{name}"):
        check_checkpoint(copy)


def test_a_whole_table_instead_of_shards_is_refused(copy: Path) -> None:
    stem = "model.language_model.layers.1.ple.ple_embedding.ngram_embedding."

    def join(tensors: dict[str, Tensor]) -> None:
        tensors[f"{stem}weight"] = torch.cat([tensors.pop(f"{stem}shard_{i}.weight") for i in range(4)])

    rewrite(copy, join)
    with pytest.raises(CheckpointError, match="lacks 4 tensors"):
        check_checkpoint(copy)


def pack_expert(tensors: dict[str, Tensor], whole: bool) -> None:
    """Write layer 0's experts one by one, the first one's gate as ModelOpt's NVFP4; not ``whole`` lacks a scale."""
    prefix = "model.language_model.layers.0.mlp.experts."
    gate_up, down = tensors.pop(f"{prefix}gate_up_proj"), tensors.pop(f"{prefix}down_proj")
    for expert in range(8):
        gate, up = gate_up[expert].chunk(2)
        tensors[f"{prefix}{expert}.gate_proj.weight"] = gate.clone()
        tensors[f"{prefix}{expert}.up_proj.weight"] = up.clone()
        tensors[f"{prefix}{expert}.down_proj.weight"] = down[expert].clone()
    packed = f"{prefix}0.gate_proj"
    tensors[f"{packed}.weight"] = torch.zeros(64, 64, dtype=torch.uint8)
    tensors[f"{packed}.weight_scale"] = torch.ones(64, 8).to(torch.float8_e4m3fn)
    tensors[f"{packed}.input_scale"] = torch.ones(())
    if whole:
        tensors[f"{packed}.weight_scale_2"] = torch.ones(())


@pytest.mark.parametrize("whole", [True, False], ids=["whole", "a scale is missing"])
def test_nvfp4_experts(copy: Path, whole: bool) -> None:
    config = json.loads((copy / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}
    (copy / "config.json").write_text(json.dumps(config))
    rewrite(copy, lambda tensors: pack_expert(tensors, whole))
    if whole:
        assert check_checkpoint(copy).warnings == ()
    else:
        with pytest.raises(CheckpointError, match=r"experts\.0\.gate_proj\.weight_scale_2"):
            check_checkpoint(copy)


def test_an_fp8_table_has_one_scale_whatever_quantised_the_rest(copy: Path) -> None:
    """As the published checkpoint: ModelOpt's NVFP4, and a PLE table in FP8 with a scale of its own."""
    config = json.loads((copy / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "modelopt", "quant_algo": "NVFP4", "group_size": 16}
    config["text_config"]["ple_embedding_dtype"] = "float8_e4m3fn"
    (copy / "config.json").write_text(json.dumps(config))
    stem = "model.language_model.layers.1.ple.ple_embedding.ngram_embedding."

    def shrink(tensors: dict[str, Tensor]) -> None:
        pack_expert(tensors, True)
        for name in [name for name in tensors if name.startswith(f"{stem}shard_")]:
            tensors[name] = tensors[name].to(torch.float8_e4m3fn)

    rewrite(copy, shrink)
    with pytest.raises(CheckpointError, match=r"lacks 1 tensor .*ngram_embedding\.weight_scale"):
        check_checkpoint(copy)
    file = copy / "model.safetensors"
    save_file({**load_file(file), f"{stem}weight_scale": torch.ones(1)}, file)
    assert check_checkpoint(copy).dtypes["F8_E4M3"] == 4 + 1  # the shards, and the expert's block scales


def test_packed_weights_without_a_quantisation_are_refused(copy: Path) -> None:
    rewrite(copy, lambda tensors: pack_expert(tensors, True))
    with pytest.raises(CheckpointError, match=r"gate_proj.weight is \[64, 64\] and should be \[64, 128\]"):
        check_checkpoint(copy)
