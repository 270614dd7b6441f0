"""The check of DFlash drafts: its list of tensors is that of SGLang's own module, and a damaged draft is refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from penny_models import CheckpointError, check_checkpoint, tiny
from penny_models.checkpoint.expected_draft import draft_tensors
from penny_models.shapes import known_config

WHERE = Path("config.json")


def shipped() -> Path:
    return tiny.path("tiny-27b-dflash2")


@pytest.fixture
def draft(tmp_path: Path) -> Path:
    """A copy in one shard that tests may damage."""
    folder = tmp_path / "draft"
    folder.mkdir()
    shutil.copyfile(shipped() / "config.json", folder / "config.json")
    tensors = {}
    for shard in shipped().glob("*.safetensors"):
        tensors |= load_file(shard)
    save_file(tensors, folder / "model.safetensors")
    return folder


def edit_config(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))


def edit_tensors(folder: Path, change: Callable[[dict[str, torch.Tensor]], Any]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def test_the_shipped_draft_is_whole() -> None:
    report = check_checkpoint(shipped())
    assert (report.architecture, report.mtp_layers, report.warnings) == ("DFlash2DraftModel", 0, ())
    # 4 layers of 15 tensors; fc, two norms; three of the selector.
    assert report.tensors == 4 * 15 + 3 + 3
    assert report.dtypes == {"BF16": 66}


def test_the_full_size_shape_has_the_sizes_of_its_config() -> None:
    """Worked out by hand from the published 27B draft's config: hidden 5,120, 32 query and 8 KV heads of 128."""
    shapes = draft_tensors(known_config("dflash2-27b"), WHERE)
    assert shapes["fc.weight"] == (5120, 25600)
    assert shapes["layers.4.self_attn.q_proj.weight"] == (4096, 5120)
    assert shapes["layers.4.self_attn.k_proj.weight"] == (1024, 5120)
    assert shapes["layers.0.attention_conv.base_kernel"] == (2, 2, 5120)
    assert shapes["layers.0.mlp_conv.kernel_projection.weight"] == (2 * 2 * 320, 5120)
    assert shapes["candidate_selector.successor_codebook"] == (248320, 256)
    assert "layers.5.input_layernorm.weight" not in shapes


def test_a_plain_dflash_draft_has_neither_convolution_nor_selector() -> None:
    config = known_config("dflash2-27b")
    flash = config["dflash_config"]
    for key in ("conv_kernel_size", "conv_group_size", "selector_rank", "selector_top_k"):
        del flash[key]
    assert not [name for name in draft_tensors(config, WHERE) if "conv" in name or "selector" in name]


def test_a_missing_tensor_is_named(draft: Path) -> None:
    edit_tensors(draft, lambda tensors: tensors.pop("layers.2.mlp_conv.base_kernel"))
    with pytest.raises(
        CheckpointError, match=r"lacks 1 tensor of the 66 .* layers\.2\.mlp_conv\.base_kernel"
    ):
        check_checkpoint(draft)


def test_a_renamed_tensor_is_missing(draft: Path) -> None:
    """What SGLang would load in silence, with the convolution left as it was allocated."""
    edit_tensors(
        draft,
        lambda tensors: tensors.update(
            {"layers.0.attn_conv.base": tensors.pop("layers.0.attention_conv.base_kernel")}
        ),
    )
    with pytest.raises(CheckpointError, match=r"layers\.0\.attention_conv\.base_kernel"):
        check_checkpoint(draft)


def test_another_hidden_size_is_another_shape(draft: Path) -> None:
    edit_config(draft, lambda config: config.update(hidden_size=256))
    with pytest.raises(
        CheckpointError, match=r"another shape .* fc\.weight is \[128, 512\] and should be \[256, 1024\]"
    ):
        check_checkpoint(draft)


def test_one_target_layer_more_widens_the_fusion(draft: Path) -> None:
    edit_config(draft, lambda config: config["dflash_config"]["target_layer_ids"].append(7))
    with pytest.raises(CheckpointError, match=r"fc\.weight is \[128, 512\] and should be \[128, 640\]"):
        check_checkpoint(draft)


def test_a_group_that_does_not_divide_the_width(draft: Path) -> None:
    edit_config(draft, lambda config: config["dflash_config"].update(conv_group_size=48))
    with pytest.raises(CheckpointError, match=r"conv_group_size 48 .* does not divide hidden_size 128"):
        check_checkpoint(draft)


def test_a_selector_without_its_width(draft: Path) -> None:
    edit_config(draft, lambda config: config["dflash_config"].pop("selector_top_k"))
    with pytest.raises(CheckpointError, match="gives selector_rank alone"):
        check_checkpoint(draft)


def test_names_with_a_prefix_are_read_too(draft: Path) -> None:
    tensors = load_file(draft / "model.safetensors")
    save_file({f"model.{name}": tensor for name, tensor in tensors.items()}, draft / "model.safetensors")
    assert check_checkpoint(draft).tensors == 66


def test_an_integer_tensor_is_refused(draft: Path) -> None:
    edit_tensors(draft, lambda tensors: tensors.update({"norm.weight": tensors["norm.weight"].int()}))
    with pytest.raises(CheckpointError, match=r"unexpected dtype: norm\.weight \(I32\)"):
        check_checkpoint(draft)
