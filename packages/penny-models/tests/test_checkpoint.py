"""Every bad checkpoint is refused with a sentence that names what is wrong; a good one is counted."""

import json
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import Tensor

from penny_models import CheckpointError, CheckpointReport, check_checkpoint

INDEX = "model.safetensors.index.json"
SHARD = "model-00002-of-00003.safetensors"
Tensors = dict[str, Tensor]


def refused(folder: Path) -> str:
    with pytest.raises(CheckpointError) as caught:
        check_checkpoint(folder)
    sentence = str(caught.value)
    assert isinstance(caught.value, ValueError)
    assert sentence.endswith(".")
    assert folder.name in sentence
    return sentence


def edit_config(folder: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    config = json.loads((folder / "config.json").read_text())
    edit(config)
    (folder / "config.json").write_text(json.dumps(config))


def edit_tensors(folder: Path, edit: Callable[[Tensors], None]) -> None:
    """Rewrite the weights as one file without an index."""
    tensors: Tensors = {}
    for shard in sorted(folder.glob("*.safetensors")):
        tensors |= load_file(shard)
        shard.unlink()
    (folder / INDEX).unlink()
    edit(tensors)
    save_file(tensors, folder / "model.safetensors")


def test_the_shipped_checkpoint_is_good(shipped: Path) -> None:
    report = check_checkpoint(str(shipped))
    tensors: dict[str, list[int]] = {}
    for shard in shipped.glob("*.safetensors"):
        with safe_open(shard, "pt") as file:
            tensors |= {name: file.get_slice(name).get_shape() for name in file.keys()}  # noqa: SIM118
    logs = sum(name.endswith("A_log") for name in tensors)
    parameters = sum(torch.Size(shape).numel() for shape in tensors.values())
    two_heads = 2
    assert report == CheckpointReport(
        path=str(shipped),
        architecture="Qwen3_5ForConditionalGeneration",
        shards=3,
        tensors=len(tensors),
        parameters=parameters,
        bytes=2 * parameters + 2 * logs * two_heads,
        mtp_layers=1,
        dtypes={"BF16": len(tensors) - logs, "F32": logs},
        warnings=(),
    )


def test_not_a_directory(tmp_path: Path, shipped: Path) -> None:
    assert "does not exist" in refused(tmp_path / "nothing")
    file = tmp_path / "weights.bin"
    file.write_bytes(b"x")
    assert "is a file" in refused(file)


def test_a_name_that_the_system_refuses(tmp_path: Path) -> None:
    assert "cannot be read" in refused(tmp_path / ("x" * 5000))


def test_no_config(checkpoint: Path) -> None:
    (checkpoint / "config.json").unlink()
    assert "has no config.json" in refused(checkpoint)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('{"architectures": [', "not valid JSON"),
        ("", "not valid JSON"),
        ("[1, 2]", "a JSON list"),
        ("[" * 200_000, "not valid JSON"),
    ],
)
def test_broken_config(checkpoint: Path, text: str, said: str) -> None:
    (checkpoint / "config.json").write_text(text)
    assert said in refused(checkpoint)


@pytest.mark.parametrize("names", [["LlamaForCausalLM"], [], None, "Qwen3_5ForCausalLM"])
def test_unknown_architecture(checkpoint: Path, names: object) -> None:
    edit_config(checkpoint, lambda config: config.update(architectures=names))
    sentence = refused(checkpoint)
    assert repr(names) in sentence
    known = "Qwen3_5ForConditionalGeneration, Qwen3_5ForCausalLM, Qwen4ExpForConditionalGeneration"
    assert known in sentence


def test_a_missing_field_is_named(checkpoint: Path) -> None:
    edit_config(checkpoint, lambda config: config["text_config"].pop("full_attention_interval"))
    assert "full_attention_interval is missing" in refused(checkpoint)


def test_layer_types_against_the_interval(checkpoint: Path) -> None:
    edit_config(checkpoint, lambda config: config["text_config"].update(full_attention_interval=2))
    assert "layer_types in" in refused(checkpoint)
    edit_config(checkpoint, lambda config: config["text_config"].pop("layer_types"))
    # Layers 1 and 5 should now be full attention, where the weights have gated delta nets.
    sentence = refused(checkpoint)
    assert "lacks 12 tensors" in sentence
    assert "model.language_model.layers.1.self_attn.k_norm.weight" in sentence


def test_no_tokenizer(checkpoint: Path) -> None:
    (checkpoint / "tokenizer.json").unlink()
    assert "neither tokenizer.json nor vocab.json with merges.txt" in refused(checkpoint)
    (checkpoint / "vocab.json").write_text("{}")
    (checkpoint / "merges.txt").write_text("")
    assert check_checkpoint(checkpoint).tensors > 0


def test_no_tokenizer_config(checkpoint: Path) -> None:
    (checkpoint / "tokenizer_config.json").unlink()
    assert "has no tokenizer_config.json" in refused(checkpoint)


def test_truncated_tokenizer(checkpoint: Path) -> None:
    file = checkpoint / "tokenizer.json"
    file.write_bytes(file.read_bytes()[:-100])
    assert "tokenizer.json does not end as JSON does" in refused(checkpoint)


def test_no_weights(checkpoint: Path) -> None:
    (checkpoint / INDEX).unlink()
    assert "has no weights" in refused(checkpoint)


def test_missing_shard(checkpoint: Path) -> None:
    (checkpoint / SHARD).unlink()
    assert f"lacks 1 shard of the 3 that {INDEX} names: {SHARD}" in refused(checkpoint)


@pytest.mark.parametrize("weight_map", [None, {}, [1]])
def test_index_without_a_map(checkpoint: Path, weight_map: object) -> None:
    (checkpoint / INDEX).write_text(json.dumps({"weight_map": weight_map}))
    assert "has no weight_map object" in refused(checkpoint)


def test_index_of_another_version(checkpoint: Path) -> None:
    index = json.loads((checkpoint / INDEX).read_text())
    name = next(name for name, shard in index["weight_map"].items() if shard == SHARD)
    index["weight_map"][name] = "model-00001-of-00003.safetensors"
    (checkpoint / INDEX).write_text(json.dumps(index))
    assert f"looks for 1 tensor in the wrong shard: {name}" in refused(checkpoint)
    del index["weight_map"][name]
    (checkpoint / INDEX).write_text(json.dumps(index))
    assert f"does not list 1 tensor that the shards hold: {name}" in refused(checkpoint)


@pytest.mark.parametrize("cut", [1, 4096, 3_000_000])
def test_truncated_shard(checkpoint: Path, cut: int) -> None:
    shard = checkpoint / SHARD
    whole = shard.read_bytes()
    shard.write_bytes(whole[:-cut])
    sentence = refused(checkpoint)
    assert f"{SHARD} is truncated" in sentence
    assert f"has {len(whole) - cut} bytes and its header announces {len(whole)}" in sentence


def test_shard_with_bytes_too_many(checkpoint: Path) -> None:
    with (checkpoint / SHARD).open("ab") as file:
        file.write(b"\0")
    assert f"{SHARD} is longer than it should be" in refused(checkpoint)


@pytest.mark.parametrize(
    "content",
    [b"", b"\x10", struct.pack("<Q", 10**6) + b"{}", struct.pack("<Q", 2**63) + b"{}", bytes(64)],
    ids=["empty", "no length", "longer than the file", "absurd length", "zeros"],
)
def test_header_longer_than_the_file(checkpoint: Path, content: bytes) -> None:
    (checkpoint / SHARD).write_bytes(content)
    assert f"{SHARD} ({len(content)} bytes) ends inside its safetensors header" in refused(checkpoint)


ENTRY = '"dtype": "BF16", "shape": [2], "data_offsets"'


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ("{{}", "is not JSON"),
        ("[1]", "is not a JSON object"),
        ('{"x": {"dtype": "BF16"}}', "describes x without"),
        (f'{{"x": {{{ENTRY}: [0, Infinity]}}}}', "describes x without"),
        (f'{{"x": {{{ENTRY}: [0, 3]}}}}', "gives x 3 bytes, but BF16 [2] takes 4"),
    ],
)
def test_damaged_header(checkpoint: Path, header: str, said: str) -> None:
    (checkpoint / SHARD).write_bytes(struct.pack("<Q", len(header)) + header.encode())
    assert said in refused(checkpoint)


def test_missing_tensors_are_listed(checkpoint: Path) -> None:
    def drop(tensors: Tensors) -> None:
        for layer in range(7):
            del tensors[f"model.language_model.layers.{layer}.mlp.up_proj.weight"]

    whole = check_checkpoint(checkpoint).tensors
    edit_tensors(checkpoint, drop)
    sentence = refused(checkpoint)
    assert f"lacks 7 tensors of the {whole} that config.json asks for" in sentence
    assert "model.language_model.layers.4.mlp.up_proj.weight and 2 more" in sentence


def test_a_tensor_that_only_the_index_has(checkpoint: Path) -> None:
    tensors = load_file(checkpoint / SHARD)
    name = sorted(tensors)[0]
    del tensors[name]
    save_file(tensors, checkpoint / SHARD)
    sentence = refused(checkpoint)
    assert "lacks 1 tensor of" in sentence
    assert name in sentence


def test_missing_head_and_tied_head(checkpoint: Path) -> None:
    edit_tensors(checkpoint, lambda tensors: tensors.pop("lm_head.weight"))
    assert "lm_head.weight" in refused(checkpoint)
    edit_config(checkpoint, lambda config: config.update(tie_word_embeddings=True))
    assert check_checkpoint(checkpoint).warnings == ()


def test_missing_mtp_tensors(checkpoint: Path) -> None:
    def drop(tensors: Tensors) -> None:
        for name in [name for name in tensors if name.startswith("mtp.")]:
            del tensors[name]

    edit_tensors(checkpoint, drop)
    sentence = refused(checkpoint)
    # fc, three norms, and the layer: two norms, three mlp matrices, four projections, two head norms.
    assert "lacks 15 tensors" in sentence
    assert "mtp.fc.weight" in sentence
    edit_config(checkpoint, lambda config: config["text_config"].update(mtp_num_hidden_layers=0))
    report = check_checkpoint(checkpoint)
    assert (report.mtp_layers, report.warnings) == (0, ())


def test_wrong_shape(checkpoint: Path) -> None:
    name = "model.language_model.layers.3.self_attn.q_proj.weight"
    edit_tensors(checkpoint, lambda tensors: tensors.update({name: torch.zeros(512, 128).bfloat16()}))
    sentence = refused(checkpoint)
    assert "1 tensor of another shape" in sentence
    # Four heads of 128 and their output gates.
    assert f"{name} is [512, 128] and should be [1024, 128]" in sentence


def test_transposed_and_flat_are_wrong_shapes(checkpoint: Path) -> None:
    def edit(tensors: Tensors) -> None:
        head = tensors["lm_head.weight"]
        tensors["lm_head.weight"] = head.T.contiguous()
        tensors["model.language_model.norm.weight"] = tensors["model.language_model.norm.weight"][None]

    edit_tensors(checkpoint, edit)
    sentence = refused(checkpoint)
    assert "2 tensors of another shape" in sentence
    assert "lm_head.weight is [128, 4096] and should be [4096, 128]" in sentence
    assert "norm.weight is [1, 128] and should be [128]" in sentence


@pytest.mark.parametrize(
    ("dtype", "shown"), [(torch.int8, "I8"), (torch.float64, "F64"), (torch.float8_e4m3fn, "F8_E4M3")]
)
def test_unexpected_dtype(checkpoint: Path, dtype: torch.dtype, shown: str) -> None:
    def edit(tensors: Tensors) -> None:
        tensors["lm_head.weight"] = tensors["lm_head.weight"].to(dtype)

    edit_tensors(checkpoint, edit)
    sentence = refused(checkpoint)
    assert "1 tensor of" in sentence
    assert f"lm_head.weight ({shown})" in sentence


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_other_floats_are_good(checkpoint: Path, dtype: torch.dtype) -> None:
    edit_tensors(checkpoint, lambda tensors: tensors.update({n: t.to(dtype) for n, t in tensors.items()}))
    report = check_checkpoint(checkpoint)
    assert len(report.dtypes) == 1
    assert report.bytes == report.parameters * dtype.itemsize


def test_fp8_needs_its_scales(checkpoint: Path) -> None:
    name = "model.language_model.layers.0.mlp.gate_proj.weight"
    tensors = load_file(checkpoint / "model-00001-of-00003.safetensors") | load_file(checkpoint / SHARD)
    quantised = tensors[name].to(torch.float8_e4m3fn)
    quantisation = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    edit_config(checkpoint, lambda config: config.update(quantization_config=quantisation))
    edit_tensors(checkpoint, lambda found: found.update({name: quantised}))
    assert f"lacks 1 tensor of the 1 that config.json asks for: {name}_scale_inv" in refused(checkpoint)

    scales = {f"{name}_scale_inv": torch.ones(3, 1)}  # 384 by 128 in blocks of 128 by 128
    whole = load_file(checkpoint / "model.safetensors")
    save_file(whole | scales, checkpoint / "model.safetensors")
    report = check_checkpoint(checkpoint)
    assert report.dtypes["F8_E4M3"] == 1
    assert report.warnings == ()


@pytest.mark.parametrize(
    "quantisation",
    ["fp8", {"quant_method": "gptq"}, {"quant_method": "fp8"}]
    + [{"quant_method": "fp8", "weight_block_size": block} for block in ([128], [0, 128], ["128", "128"])],
)
def test_quantisation_that_cannot_be_checked(checkpoint: Path, quantisation: object) -> None:
    edit_config(checkpoint, lambda config: config.update(quantization_config=quantisation))
    assert "quantization_config" in refused(checkpoint)


def test_extra_tensors_warn(checkpoint: Path) -> None:
    extra = {"model.language_model.rotary.inv_freq": torch.zeros(4)}
    edit_tensors(checkpoint, lambda tensors: tensors.update(extra))
    report = check_checkpoint(checkpoint)
    assert report.warnings == ("1 tensor will not be used: model.language_model.rotary.inv_freq.",)


def test_text_only_form(checkpoint: Path) -> None:
    def rename(tensors: Tensors) -> None:
        for name in list(tensors):
            value = tensors.pop(name)
            if not name.startswith("model.visual."):
                tensors[name.replace("model.language_model.", "model.")] = value

    def flatten(config: dict[str, Any]) -> None:
        text = config["text_config"]
        config.clear()
        config.update(text, architectures=["Qwen3_5ForCausalLM"])

    edit_tensors(checkpoint, rename)
    assert check_checkpoint(checkpoint).warnings == ()
    edit_config(checkpoint, flatten)
    report = check_checkpoint(checkpoint)
    assert (report.architecture, report.shards, report.warnings) == ("Qwen3_5ForCausalLM", 1, ())


def test_vision_tower_is_needed_unless_the_config_says_not(checkpoint: Path) -> None:
    edit_config(checkpoint, lambda config: config.update(language_model_only=False))
    edit_config(checkpoint, lambda config: config["vision_config"].update(depth=1))
    sentence = refused(checkpoint)
    assert "model.visual.blocks.0." in sentence
    edit_config(checkpoint, lambda config: config.update(language_model_only=True))
    assert check_checkpoint(checkpoint).warnings == ()


def test_a_shard_name_that_the_system_refuses(checkpoint: Path) -> None:
    (checkpoint / INDEX).write_text(json.dumps({"weight_map": {"lm_head.weight": "x" * 5000}}))
    assert "cannot be read" in refused(checkpoint)


ODD_VALUES_OF_LAYERS = st.sampled_from([None, "x", -1, 0, 1, 1.5, True, False, [], [1, 2], {}, {"a": 1}])
ODD_VALUES = ODD_VALUES_OF_LAYERS | st.just(2**40)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
def test_any_odd_config_gives_a_report_or_a_sentence(
    shipped: Path, tmp_path: Path, data: st.DataObject
) -> None:
    folder = tmp_path / "linked"
    if not folder.exists():
        folder.mkdir()
        for file in shipped.iterdir():
            if file.name != "config.json":
                (folder / file.name).symlink_to(file)
    config = json.loads((shipped / "config.json").read_text())
    section = data.draw(st.sampled_from(["text_config", "vision_config", None]))
    target = config if section is None else config[section]
    key = data.draw(st.sampled_from([*sorted(target), "quantization_config"]))
    # No huge number of layers: the list of their tensors would fill the memory.
    target[key] = data.draw(ODD_VALUES if "layers" not in key and key != "depth" else ODD_VALUES_OF_LAYERS)
    (folder / "config.json").write_text(json.dumps(config))
    try:
        report = check_checkpoint(folder)
    except CheckpointError as error:
        refusal: CheckpointError | None = error
    else:
        refusal = None
        assert report.shards == 3
    assert refusal is None or str(refusal).endswith(".")
