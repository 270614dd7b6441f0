"""What a config.json says about memory, against published sizes, other definitions and real files."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from safetensors import safe_open

from penny_models import CheckpointError, tiny
from penny_models.checkpoint.expected import language_model_tensors, mtp_tensors
from penny_models.checkpoint.text_config import parse_text_config
from penny_models.shapes import (
    ModelShape,
    Storage,
    dflash_parts,
    known_config,
    known_names,
    merged,
    model_shape,
    nextn_parts,
    nextn_storage,
    nextn_tables,
    ngram_tables,
    read_config,
    read_dflash,
    read_storage,
    replay_ring,
    slot_state,
    token_cost,
    unquantised,
    verify_state,
)
from penny_models.shapes.base import Matrix
from penny_models.shapes.ple import head_vocabularies

WHERE = Path("config.json")
MIB, GIB = 1 << 20, 1 << 30


def shape(name: str, **options: Any) -> ModelShape:
    return model_shape(known_config(name), WHERE, **options)


def elements(found: ModelShape) -> int:
    return sum(part.elements for part in found.parts)


def changed(name: str, **text: Any) -> dict[str, Any]:
    config = known_config(name)
    config["text_config"] = {k: v for k, v in (config["text_config"] | text).items() if v is not None}
    return config


def test_the_dense_family_has_the_tensors_that_a_checkpoint_must_have() -> None:
    for config in (known_config("qwen38-27b"), read_config(Path(tiny.path("tiny-27b")))):
        expected = language_model_tensors(parse_text_config(config, WHERE), "model.")
        found = model_shape(config, WHERE, text_only=True)
        assert elements(found) == sum(math.prod(size) for size in expected.values())
        draft = mtp_tensors(parse_text_config(config, WHERE))
        parts = nextn_parts(found.text, unquantised())
        assert sum(part.elements for part in parts) == sum(math.prod(size) for size in draft.values())


def test_the_tiny_checkpoint_has_the_bytes_that_its_config_says() -> None:
    folder = Path(tiny.path("tiny-27b"))
    stored = {"model": 0, "draft": 0, "vision": 0}
    for file in folder.glob("*.safetensors"):
        with safe_open(file, framework="np") as tensors:
            for name in tensors.keys():  # noqa: SIM118 - no mapping
                view = tensors.get_slice(name)
                # SGLang keeps A_log in float32 whatever the file has.
                width = 4 if name.endswith("A_log") else 2
                kind = "draft" if name.startswith("mtp.") else "vision" if "visual" in name else "model"
                stored[kind] += math.prod(view.get_shape()) * width
    found = model_shape(read_config(folder), folder)
    assert found.bytes == stored["model"]
    assert sum(part.bytes for part in nextn_parts(found.text, unquantised())) == stored["draft"]


def test_the_27b_model_has_the_published_sizes() -> None:
    text = shape("qwen38-27b-fp8").text
    assert token_cost(text, 16, 1).total == 32_768
    slot = slot_state(text, ssm_width=4, conv_width=2)
    # Published for 24 slots and one for padding: 3.52 GiB of recurrent and 0.07 GiB of convolution state.
    assert round(25 * slot.temporal / GIB, 2) == 3.52
    assert round(25 * slot.conv / GIB, 2) == 0.07
    # For four requests and one for padding, eight tokens wide: 5.62 GiB of states and 0.05 GiB of windows.
    whole = verify_state(text, slot, 8, 2, shared=True)
    assert 5 * slot.temporal * 8 / GIB == pytest.approx(5.62, abs=0.01)
    assert 5 * (whole - 8 * slot.temporal) / GIB == pytest.approx(0.05, abs=0.005)


def test_windows_that_are_not_shared_take_three_columns_a_token() -> None:
    text = shape("qwen38-27b").text
    slot = slot_state(text, 4, 2)
    apart = verify_state(text, slot, 8, 2, shared=False) - 8 * slot.temporal
    shared = verify_state(text, slot, 8, 2, shared=True) - 8 * slot.temporal
    assert apart == 48 * 10_240 * 8 * 3 * 2
    assert shared == 48 * 10_240 * 10 * 2


def test_flash_next_has_the_published_sizes() -> None:
    found = shape("flash-next-nvfp4")
    text = found.text
    assert (len(text.full_layers), text.gdn_layers) == (12, 36)
    assert token_cost(text, 12, 1).kv + token_cost(text, 1, 1).kv == 13_312
    assert token_cost(text, 1, 1).index == 64
    slot = slot_state(text, ssm_width=2, conv_width=2)
    assert slot.temporal == 54 * MIB
    assert slot.ple_conv == 10_240 * 9 * 2
    assert slot.ple_context == 2 * 8
    wide = slot_state(text, ssm_width=2, conv_width=4)
    assert (wide.ple_conv, wide.ple_context) == (2 * slot.ple_conv, slot.ple_context)
    (table,) = found.tables
    assert (table.rows, table.row_bytes, table.reads, table.bytes) == (320_001_536, 160, 16, 51_200_245_760)


def test_published_bytes_of_a_decode_step_are_those_of_the_dense_parts() -> None:
    # In GB, read once per step: GDN 4.17, HyperConnections 1.32, head 1.27 (gabrielolympie's accounting).
    parts = {(part.name, part.format): part.bytes / 1e9 for part in shape("flash-next-nvfp4").parts}
    assert parts["gdn", "bf16"] == pytest.approx(4.17, abs=0.01)
    assert parts["hyper connections", "bf16"] == pytest.approx(1.32, abs=0.05)
    assert parts["head", "bf16"] == pytest.approx(1.27, abs=0.01)
    assert parts["experts", "nvfp4"] == pytest.approx(48 * 512 * 3 * 640 * 2560 * 0.5625 / 1e9, rel=1e-4)


def test_each_head_of_the_table_has_the_next_prime() -> None:
    def prime(number: int) -> bool:
        return all(number % divisor for divisor in range(2, math.isqrt(number) + 1))

    found = head_vocabularies(1000, 8)
    assert found == [number for number in range(1000, 1100) if prime(number)][:8]
    large = head_vocabularies(20_000_000, 2)
    assert large == [number for number in range(20_000_000, 20_000_100) if prime(number)][:2]
    assert head_vocabularies(2, 4) == [2, 3, 5, 7]


def test_tables_of_two_layers_follow_each_other() -> None:
    config = changed("flash-next-nvfp4", ple_layer_ids=[3, 2], ngram_vocab_size_base=100, heads_per_ngram=1)
    text = model_shape(config, WHERE).text
    assert text.ngram is not None
    assert text.ngram.layers == (1, 2)
    first, second = ngram_tables(text.ngram)
    # Two heads a layer: the primes 101 and 103, then 107 and 109, rounded up to a multiple of 128.
    assert (first.rows, second.rows) == (256, 256)
    assert first.row_bytes == 2560 // 2


def test_dflash2_has_its_published_size() -> None:
    draft = read_dflash(known_config("dflash2-27b"), WHERE)
    assert sum(part.bytes for part in dflash_parts(draft, unquantised())) / 1e9 == pytest.approx(
        3.85, abs=0.01
    )
    assert draft.layers * draft.kv_per_layer == 10_240


def test_half_of_a_pair_is_refused_in_a_draft() -> None:
    for key in ("conv_group_size", "selector_top_k"):
        config = known_config("dflash2-27b")
        config["dflash_config"].pop(key)
        with pytest.raises(CheckpointError, match="go together"):
            read_dflash(config, WHERE)
    with pytest.raises(CheckpointError, match="no dflash_config"):
        read_dflash(known_config("qwen38-27b"), WHERE)


@pytest.mark.parametrize(
    ("storage", "rows", "columns", "expected"),
    [
        (Storage("bf16"), 96, 5120, 96 * 5120 * 2),
        (Storage("fp8-block"), 256, 300, 256 * 300 + 4 * 2 * 3),
        (Storage("fp8"), 256, 300, 256 * 300 + 4 * 256),
        (Storage("nvfp4"), 64, 160, 64 * 160 // 2 + 64 * 160 // 16 + 8),
        (Storage("bf16", rules=(("*.mlp.experts*", "nvfp4"),)), 64, 160, 64 * 160 * 2),
        (Storage("nvfp4", ignored=("q_proj",)), 64, 160, 64 * 160 * 2),
        (Storage("nvfp4", ignored=("*self_attn*",)), 64, 160, 64 * 160 * 2),
        (Storage("nvfp4", ignored=("re:q_.*$",)), 64, 160, 64 * 160 * 2),
        (Storage("nvfp4", ignored=("model.language_model.layers.3",)), 64, 160, 64 * 160 * 2),
        (Storage("nvfp4", ignored=("model.layers.30",)), 64, 160, 64 * 160 // 2 + 64 * 160 // 16 + 8),
    ],
)
def test_bytes_of_one_matrix(storage: Storage, rows: int, columns: int, expected: int) -> None:
    matrix = Matrix("attention", "model.layers.3.self_attn.q_proj", rows, columns, 3)
    assert storage.part(matrix).bytes == 3 * expected


def test_quantisations_that_checkpoints_write() -> None:
    def storage(**quantisation: Any) -> Storage:
        return read_storage({"quantization_config": quantisation}, WHERE)

    assert storage(quant_method="fp8", weight_block_size=[64, 32]).block == (64, 32)
    assert storage(quant_method="fp8").default == "fp8"
    groups = {"group_0": {"weights": {"num_bits": 8, "type": "float", "block_structure": [128, 128]}}}
    assert storage(quant_method="compressed-tensors", config_groups=groups, ignore=["lm_head"]).ignored == (
        "lm_head",
    )
    layers = {
        "model.layers.0.mlp.experts": {"quant_algo": "NVFP4"},
        "mtp.fc": {"quant_algo": "FP8_BLOCK_SCALES"},
    }
    mixed = storage(quant_method="modelopt", quant_algo="MIXED_PRECISION", quantized_layers=layers)
    assert mixed.rules == (("model.layers.0.mlp.experts", "nvfp4"), ("mtp.fc", "fp8-block"))
    assert read_storage({}, WHERE, "float32").width == 4
    for wrong in ({"quant_method": "gptq"}, {"quant_method": "modelopt", "quant_algo": "INT4_AWQ"}):
        with pytest.raises(CheckpointError, match="cannot be sized"):
            storage(**wrong)
    with pytest.raises(CheckpointError, match="not an object"):
        read_storage({"quantization_config": "fp8"}, WHERE)


def test_stock_keeps_the_draft_layer_of_a_whole_nvfp4_checkpoint_in_bfloat16() -> None:
    found = shape("flash-next-nvfp4")
    assert nextn_storage(found.storage, None).default == "bf16"
    experts = 512 * 3 * 640 * 2560
    parts = {part.name: part for part in nextn_parts(found.text, nextn_storage(found.storage, None))}
    assert parts["draft experts"].bytes == 2 * experts
    named = Storage("bf16", rules=(("mtp.layers.0.mlp.experts", "nvfp4"),))
    parts = {part.name: part for part in nextn_parts(found.text, nextn_storage(named, "unquant"))}
    assert parts["draft experts"].format == "nvfp4"
    assert nextn_storage(Storage("fp8-block"), None).default == "fp8-block"
    assert nextn_storage(Storage("fp8-block"), "unquant").default == "bf16"


def test_the_draft_brings_tables_that_are_dropped_later() -> None:
    found = shape("flash-next-nvfp4")
    assert sum(part.bytes for part in nextn_tables(found.text, found.storage)) == 2 * 248_320 * 2560 * 2


def test_online_fp8_halves_what_is_large_and_plain() -> None:
    found = shape("flash-next-nvfp4")
    saved = found.bytes - sum(part.bytes for part in found.online_fp8())
    # Dense projections keep a scale byte for 32 numbers, mixing weights and head a float32 for each row.
    dense = 36 * (16_384 + 6_144) * 2560 + 12 * (13_312 + 6_144) * 2560 + 48 * 3 * 640 * 2560
    rows = (97 * 2 - 1) * 2 * 320 * 10_240 // 2 + 248_320 * 2560
    assert saved == pytest.approx(dense * (1 - 1 / 32) + rows, rel=0.003)
    # Published: 3.86 GiB more free after the graphs.
    assert saved / GIB == pytest.approx(3.86, abs=0.06)
    formats = {part.name: part.format for part in found.online_fp8()}
    assert (formats["experts"], formats["router"], formats["ple"], formats["indexer"]) == (
        "nvfp4",
        "bf16",
        "bf16",
        "bf16",
    )


def test_the_ring_of_replay_has_two_halves_of_keys_and_values() -> None:
    text = shape("qwen38-27b").text
    values, keys, gates = 48 * 16 * 128, 16 * 16 * 128, 48 * 16
    assert replay_ring(text, 16, conv_width=2) == 48 * (2 * (values + keys) * 2 + 4 * gates)
    assert replay_ring(text, 16, conv_width=4) == 48 * ((values + keys) * 4 + 4 * gates)


def test_vision_is_left_out_of_text_only_serving() -> None:
    names = {part.name for part in shape("qwen38-27b-fp8").parts}
    assert "vision" in names
    assert "vision" not in {part.name for part in shape("qwen38-27b-fp8", text_only=True).parts}
    assert not model_shape(known_config("qwen38-27b") | {"language_model_only": True}, WHERE).multimodal


def test_a_tied_head_is_not_counted_twice() -> None:
    config = known_config("qwen38-27b") | {"tie_word_embeddings": True}
    assert shape("qwen38-27b").bytes - model_shape(config, WHERE).bytes == 248_320 * 5120 * 2


def test_float32_doubles_what_is_not_quantised() -> None:
    whole = shape("qwen38-27b", text_only=True, dtype="float32")
    assert whole.bytes == 4 * elements(whole)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ({"full_attention_interval": None}, "full_attention_interval is missing"),
        ({"hidden_size": 0}, "hidden_size is 0"),
        ({"indexer_head_dim": None}, "indexer_head_dim is missing"),
        ({"indexer_budget": 100}, "512 or 2048 blocks"),
        ({"layer_types": ["full_attention"]}, "one entry for each of 48 layers"),
        ({"num_experts_per_tok": "ten"}, "num_experts_per_tok is 'ten'"),
    ],
)
def test_a_field_that_is_missing_or_wrong_is_named(text: dict[str, Any], expected: str) -> None:
    with pytest.raises(CheckpointError, match=expected):
        model_shape(changed("flash-next-nvfp4", **text), WHERE)


def test_other_models_are_refused_with_those_that_are_known() -> None:
    with pytest.raises(CheckpointError, match="Qwen4ExpForConditionalGeneration"):
        model_shape({"architectures": ["LlamaForCausalLM"]}, WHERE)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(CheckpointError, match="cannot be read"):
        read_config(tmp_path / "absent")
    (tmp_path / "config.json").write_text("{", encoding="utf-8")
    with pytest.raises(CheckpointError, match="not valid JSON"):
        read_config(tmp_path)
    (tmp_path / "config.json").write_text("[]", encoding="utf-8")
    with pytest.raises(CheckpointError, match="JSON list"):
        read_config(tmp_path)


def test_overrides_are_merged_into_objects() -> None:
    config = {"a": {"b": 1, "c": {"d": 2}}, "e": [1]}
    assert merged(config, {"a": {"c": {"f": 3}}, "e": [2]}) == {
        "a": {"b": 1, "c": {"d": 2, "f": 3}},
        "e": [2],
    }
    assert config == {"a": {"b": 1, "c": {"d": 2}}, "e": [1]}


def test_shipped_configs_can_be_sized() -> None:
    assert set(known_names()) == {"dflash2-27b", "flash-next-nvfp4", "qwen38-27b", "qwen38-27b-fp8"}
    with pytest.raises(CheckpointError, match="shipped: dflash2-27b"):
        known_config("qwen4")


def test_nothing_of_it_imports_torch() -> None:
    script = (
        "import sys, json\n"
        "from pathlib import Path\n"
        "from penny_models.shapes import known_config, model_shape\n"
        "size = model_shape(known_config('qwen38-27b-fp8'), Path('x')).bytes\n"
        "print(json.dumps([size, 'torch' in sys.modules, 'transformers' in sys.modules]))\n"
    )
    run = subprocess.run([sys.executable, "-c", script], check=True, capture_output=True, text=True)
    assert json.loads(run.stdout) == [shape("qwen38-27b-fp8").bytes, False, False]
