"""A draft's config.json: every rule, the window, the target, and agreement with SGLang's parser."""

import json
from pathlib import Path
from typing import Any

import pytest
from tokenizers import Tokenizer
from tokenizers.models import WordLevel

from penny_spec.dflash import LayerSight, check_target, mask_token_id, parse_config, read_config

BASE: dict[str, Any] = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": 3,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "head_dim": 32,
    "vocab_size": 500,
    "layer_types": ["sliding_attention", "sliding_attention", "full_attention"],
    "sliding_window": 2048,
    "rope_parameters": {"rope_type": "default", "rope_theta": 10_000_000},
    "dflash_config": {
        "block_size": 8,
        "num_target_layers": 12,
        "target_layer_ids": [1, 5, 9],
        "mask_token_id": 499,
        "conv_kernel_size": 2,
        "conv_group_size": 16,
        "selector_rank": 8,
        "selector_top_k": 4,
    },
}
TARGET = {"text_config": {"hidden_size": 64, "vocab_size": 500, "num_hidden_layers": 12}}


def changed(top: dict[str, Any] | None = None, **flash: Any) -> dict[str, Any]:
    config = json.loads(json.dumps(BASE)) | (top or {})
    config["dflash_config"].update(flash)
    return {key: value for key, value in config.items() if value is not None}


def test_a_whole_configuration() -> None:
    config = parse_config(BASE)
    assert (config.block_size, config.feature_count, config.mask_token_id) == (8, 3, 499)
    assert (config.conv_kernel_size, config.conv_group_size) == (2, 16)
    assert (config.selector_rank, config.selector_top_k) == (8, 4)
    assert (config.output_multiplier, config.softcap) == (1.0, None)
    assert (config.mask_token, config.rope.theta, config.unsupported) == ("<|MASK|>", 1e7, ())


def test_a_window_counts_the_row_itself_and_sglangs_does_not() -> None:
    sliding, _, full = parse_config(BASE).sights
    assert sliding == LayerSight(window=2048, causal=True)
    assert full == LayerSight(window=None, causal=False)
    assert (sliding.window_left, full.window_left) == (2047, -1)


def test_is_causal_overrules_the_kind_of_layer() -> None:
    assert [s.causal for s in parse_config(changed({"is_causal": True})).sights] == [True] * 3
    assert [s.causal for s in parse_config(changed({"is_causal": False})).sights] == [False] * 3


def test_absent_fields_have_sglangs_defaults() -> None:
    config = parse_config({**changed({"layer_types": None, "sliding_window": None}), "dflash_config": {}})
    assert (config.block_size, config.mask_token_id, config.selector_rank, config.conv_kernel_size) == (
        16,
        None,
        0,
        0,
    )
    assert config.sights == (LayerSight(None, False),) * 3
    # Three ids evenly spaced from 1 to 12 - 3 = 9.
    assert (config.feature_count, config.resolve_layer_ids(12)) == (3, (1, 5, 9))


def test_one_draft_layer_takes_the_middle_and_small_targets_are_refused() -> None:
    one = changed({"num_hidden_layers": 1, "layer_types": None}, target_layer_ids=None)
    assert parse_config(one).resolve_layer_ids(12) == (6,)
    two = parse_config(changed({"num_hidden_layers": 2, "layer_types": None}, target_layer_ids=None))
    assert two.resolve_layer_ids(4) == (1, 1)
    with pytest.raises(ValueError, match="has 3 layers; evenly spaced features need 4"):
        two.resolve_layer_ids(3)


def test_fields_may_stand_at_the_top_and_dflash_config_wins() -> None:
    config = changed({"block_size": 4, "target_layer_ids": [2], "mask_token": "<m>"})
    del config["dflash_config"]["target_layer_ids"]
    found = parse_config(config)
    assert (found.block_size, found.target_layer_ids, found.mask_token) == (8, (2,), "<m>")


@pytest.mark.parametrize(
    ("top", "flash", "message"),
    [
        ({}, {"conv_group_size": 0}, "has conv_kernel_size 2 and conv_group_size 0; both must be positive"),
        ({}, {"conv_kernel_size": None}, "has conv_kernel_size 0 and conv_group_size 16"),
        ({}, {"selector_rank": None}, "has selector_rank 0 and selector_top_k 4"),
        ({}, {"selector_top_k": 0}, "has selector_rank 8 and selector_top_k 0"),
        ({}, {"selector_top_k": 501}, "there are only 500 tokens"),
        ({}, {"conv_group_size": 24}, "must divide hidden_size 64"),
        ({}, {"conv_kernel_size": 9}, "a block has only 8 rows"),
        ({}, {"output_multiplier": 0}, "has output_multiplier 0.0; it must be positive"),
        ({}, {"output_multiplier": -1.5}, "has output_multiplier -1.5; it must be positive"),
        ({}, {"output_multiplier": float("nan")}, "has output_multiplier nan; it must be a finite number"),
        ({}, {"final_logit_softcapping": -1}, "has final_logit_softcapping -1.0"),
        ({}, {"block_size": 1}, "has block_size 1; it must be an integer of at least 2"),
        ({}, {"block_size": "8"}, "has block_size '8'; it must be an integer"),
        ({}, {"block_size": True}, "has block_size True; it must be an integer"),
        ({}, {"target_layer_ids": []}, r"has target_layer_ids \[\]"),
        ({}, {"target_layer_ids": 3}, "has target_layer_ids 3; it must be a list of layer numbers"),
        ({}, {"target_layer_ids": [5, 1]}, "layer numbers that rise"),
        ({}, {"target_layer_ids": [1, 1]}, "layer numbers that rise"),
        ({}, {"target_layer_ids": [-1, 1]}, "layer numbers that rise"),
        ({}, {"target_layer_ids": [1, 12]}, "names layer 12; the target has layers 0 to 11"),
        ({}, {"mask_token": ""}, "has mask_token ''"),
        ({}, {"mask_token_id": -1}, "has mask_token_id -1"),
        ({}, {"mask_token_id": 500}, "has mask_token_id 500; it must be below vocab_size 500"),
        ({"layer_types": ["full_attention"]}, {}, "one entry for each of 3 layers"),
        ({"layer_types": ["linear_attention"] * 3}, {}, r"has layer_types\[0\] 'linear_attention'"),
        ({"sliding_window": None}, {}, "has no sliding_window"),
        ({"sliding_window": 0}, {}, "has sliding_window 0"),
        ({"hidden_size": None}, {}, "config.json has no hidden_size"),
        ({"num_key_value_heads": 3}, {}, "has 4 heads over 3 KV heads"),
        ({"dflash_config": [1]}, None, r"has dflash_config \[1\]; it must be a JSON object"),
        ({"rope_parameters": {"rope_type": "yarn", "rope_theta": 1e7}}, {}, "rope_type yarn and factor 0"),
        ({"text_config": {"rope_parameters": {}}}, {}, "text_config has no hidden_size"),
    ],
)
def test_wrong_values_are_refused(top: dict[str, Any], flash: dict[str, Any] | None, message: str) -> None:
    config = {**BASE, **top} if flash is None else changed(top, **flash)
    config.update({key: value for key, value in top.items() if value is not None})
    with pytest.raises(ValueError, match=message):
        parse_config(config)


def test_what_the_drafter_does_not_compute_is_named() -> None:
    top = {"attention_bias": True, "hidden_act": "swigluoai"}
    found = parse_config(changed(top, projector_type="domino", attention_value_scale=0.5))
    assert found.unsupported == (
        "projector_type",
        "attention_value_scale",
        "attention_bias",
        "hidden_act swigluoai",
    )
    rope = {"rope_type": "default", "rope_theta": 1e7, "mrope_section": [4, 4, 4]}
    assert parse_config(changed({"rope_parameters": rope})).unsupported == ("mrope_section",)
    # An explicit width makes what was copied from the target void.
    assert parse_config(changed({"rope_parameters": rope | {"rope_dim": 32}})).unsupported == ()


def test_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="There is no file"):
        read_config(tmp_path)
    file = tmp_path / "config.json"
    for text, message in [("{", "is not JSON"), ("[]", "holds a list")]:
        file.write_text(text)
        with pytest.raises(ValueError, match=message):
            read_config(tmp_path)
    file.write_text(json.dumps(BASE))
    assert read_config(tmp_path) == read_config(file) == parse_config(BASE)


# ---- the target


@pytest.mark.parametrize("block", [None, 8])
def test_a_draft_that_fits(block: int | None) -> None:
    assert check_target(parse_config(BASE), TARGET, block_size=block) == (1, 5, 9)
    assert check_target(parse_config(BASE), TARGET["text_config"], block_size=block) == (1, 5, 9)


@pytest.mark.parametrize(
    ("flash", "target", "block", "message"),
    [
        ({}, {"hidden_size": 128}, None, "hidden size 64 and the target 128"),
        ({}, {"vocab_size": 512}, None, "500 tokens and the target 512"),
        ({}, {"num_hidden_layers": 13}, None, "target of 12 layers, this one has 13"),
        (
            {"num_target_layers": None},
            {"num_hidden_layers": 9},
            None,
            "names layer 9; the target has layers 0 to 8",
        ),
        (
            {"target_layer_ids": [1, 11]},
            {},
            None,
            "names layer 11, the target's last; .* after layers 0 to 10",
        ),
        ({}, {}, 16, "block of 16 rows was asked for; the draft was trained for 8"),
        ({}, {"hidden_size": None}, None, "The target's text_config has no hidden_size"),
    ],
)
def test_a_draft_that_does_not_fit(
    flash: dict[str, Any], target: dict[str, Any], block: int | None, message: str
) -> None:
    draft = parse_config(changed(**flash))
    with pytest.raises(ValueError, match=message):
        check_target(draft, {"text_config": TARGET["text_config"] | target}, block_size=block)


def test_the_mask_token_agrees_with_the_tokenizer() -> None:
    tokenizer = Tokenizer(WordLevel({"a": 0, "<|MASK|>": 499, "<m>": 7}, unk_token="a"))
    silent = parse_config(changed(mask_token_id=None))
    assert mask_token_id(silent, tokenizer) == mask_token_id(parse_config(BASE), tokenizer) == 499
    assert mask_token_id(parse_config(changed(mask_token="<other>")), tokenizer) == 499
    with pytest.raises(ValueError, match="the id 499, the tokenizer 7"):
        mask_token_id(parse_config(changed(mask_token="<m>")), tokenizer)
    with pytest.raises(ValueError, match="has no token '<other>'"):
        mask_token_id(parse_config(changed(mask_token="<other>", mask_token_id=None)), tokenizer)


# ---- SGLang's parser


@pytest.mark.parametrize(
    ("top", "flash"),
    [
        ({}, {}),
        ({"layer_types": None}, {"output_multiplier": 2, "final_logit_softcapping": 30.0}),
        ({"block_size": 6}, {"block_size": None, "target_layer_ids": None}),
        ({"mask_token": "<m>"}, {"conv_kernel_size": 0, "conv_group_size": 0}),
    ],
)
def test_sglang_reads_the_same(top: dict[str, Any], flash: dict[str, Any]) -> None:
    utils = pytest.importorskip("sglang.srt.speculative.dflash_utils")
    config = changed(top, **flash)
    config["dflash_config"] = {key: v for key, v in config["dflash_config"].items() if v is not None}
    ours, theirs = parse_config(config), utils.parse_dflash_draft_config(draft_hf_config=config)
    for name in ("num_target_layers", "block_size", "conv_kernel_size", "conv_group_size", "selector_rank"):
        assert getattr(ours, name) == getattr(theirs, name), name
    for name in ("selector_top_k", "output_multiplier", "mask_token", "mask_token_id"):
        assert getattr(ours, name) == getattr(theirs, name), name
    assert ours.softcap == theirs.final_logit_softcapping
    assert list(ours.resolve_layer_ids(12)) == theirs.resolve_target_layer_ids(
        target_num_layers=12, draft_num_layers=3
    )
    window = utils.get_dflash_attention_sliding_window_size(config)
    assert [s.window_left for s in ours.sights if s.window] == ([] if window is None else [window] * 2)
