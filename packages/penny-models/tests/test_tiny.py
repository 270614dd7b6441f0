"""The shipped checkpoint: its place, its limits, and records that agree with each other."""

import hashlib
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file

from penny_models import check_checkpoint, tiny
from penny_models.training.card import write_card


def record(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text(encoding="utf-8"))


def weights(folder: Path) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = {}
    for shard in folder.glob("*.safetensors"):
        tensors |= load_file(shard)
    return tensors


def test_names_and_path(shipped: Path) -> None:
    assert tiny.names() == ["tiny-27b", "tiny-27b-dflash2", "tiny-next"]
    assert shipped.name == "tiny-27b"
    assert shipped.is_dir()


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(ValueError, match=r"named 'tiny27'; shipped: tiny-27b, tiny-27b-dflash2, tiny-next. Did you mean tiny-27b\?"):
        tiny.path("tiny27")
    with pytest.raises(ValueError, match=r"named '\.\./tiny-27b'"):
        tiny.card("../tiny-27b")


def test_size_limits(shipped: Path) -> None:
    shards = [file.stat().st_size for file in shipped.glob("*.safetensors")]
    assert sum(shards) <= 8_000_000
    assert max(shards) < 4_000_000
    assert (
        check_checkpoint(shipped).bytes
        == record(shipped, "model.safetensors.index.json")["metadata"]["total_size"]
    )


def test_the_shape_of_the_family(shipped: Path) -> None:
    config = record(shipped, "config.json")
    text = config["text_config"]
    assert config["architectures"] == ["Qwen3_5ForConditionalGeneration"]
    assert text["num_hidden_layers"] >= 8
    assert text["layer_types"] == (["linear_attention"] * 3 + ["full_attention"]) * 2
    assert text["num_attention_heads"] > text["num_key_value_heads"]
    assert text["attn_output_gate"] is True
    # The mRoPE sections are counted in pairs: together they fill the rotated quarter of a head.
    rope = text["rope_parameters"]
    assert 2 * sum(rope["mrope_section"]) == rope["partial_rotary_factor"] * text["head_dim"]
    # What the CUDA kernels take.
    assert text["linear_key_head_dim"] == text["linear_value_head_dim"] == 128
    assert text["head_dim"] in (128, 256)
    assert text["hidden_size"] % 128 == 0


def test_head_and_embedding_are_two_tensors(shipped: Path) -> None:
    assert record(shipped, "config.json")["tie_word_embeddings"] is False
    assert record(shipped, "config.json")["text_config"]["tie_word_embeddings"] is False
    tensors = weights(shipped)
    head, embedding = tensors["lm_head.weight"], tensors["model.language_model.embed_tokens.weight"]
    assert head.shape == embedding.shape == (4096, 128)
    cosine = torch.cosine_similarity(head.float(), embedding.float()).abs().mean()
    assert cosine < 0.9


def test_weights_are_finite_and_trained(shipped: Path) -> None:
    for name, tensor in weights(shipped).items():
        assert torch.isfinite(tensor).all(), name
        if name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight")):
            assert tensor.float().std() > 1e-3, name  # training starts them at zero
        if name.endswith("A_log"):
            assert torch.equal(tensor, tensor.bfloat16().float()), name


def test_shards_say_that_they_are_for_torch(shipped: Path) -> None:
    for shard in shipped.glob("*.safetensors"):
        with safe_open(shard, "pt") as file:
            assert file.metadata() == {"format": "pt"}


def test_the_card_is_written_from_the_records(shipped: Path) -> None:
    results, manifest = record(shipped, "results.json"), record(shipped, "data_manifest.json")
    assert tiny.card("tiny-27b") == write_card(results, manifest)


def test_the_numbers_of_the_card(shipped: Path) -> None:
    results, card = record(shipped, "results.json"), tiny.card("tiny-27b")
    held = results["held_out"]
    rows = {
        "tiny-27b": held["model"]["bits_per_byte"],
        "trigram": held["trigram"],
        "unigram": held["unigram"],
    }
    for name, values in rows.items():
        shown = re.search(rf"^\| {name} \|(.*)\|$", card, re.MULTILINE)
        assert shown is not None
        numbers = [float(number) for number in shown[1].split("|")]
        expected = [values["code"], values["prose"], values["chat"], values["all"]]
        np.testing.assert_allclose(numbers, expected, rtol=0, atol=0.0005000001)
    shares = [float(share) for share in re.findall(r"([\d.]+)% of the\s+positions", card)]
    assert shares[0] == pytest.approx(100 * held["model"]["mtp_top1_accuracy"]["step1"], abs=0.051)
    assert f"{results['parameters']:,}" in card


def test_records_agree_with_the_weights(shipped: Path) -> None:
    results = record(shipped, "results.json")
    assert results["parameters"] == check_checkpoint(shipped).parameters
    curve = record(shipped, "loss_curve.json")
    last = dict(zip(curve["columns"], curve["rows"][-1], strict=True))
    assert (last["step"], last["tokens"]) == (results["steps"], results["tokens"])
    assert results["tokens"] == results["steps"] * results["batch"] * results["sequence_length"]
    assert last["main"] < curve["rows"][0][curve["columns"].index("main")] / 3
    assert results["training_seconds"] <= 600


def test_the_published_quality_beats_the_baselines(shipped: Path) -> None:
    held = record(shipped, "results.json")["held_out"]
    for kind in ("code", "prose", "chat", "all"):
        model = held["model"]["bits_per_byte"][kind]
        assert model < 0.7 * held["trigram"][kind]
        assert held["trigram"][kind] < held["unigram"][kind]


def test_no_text_of_the_corpus_is_shipped(shipped: Path) -> None:
    """The corpus is other people's work: names, versions and hashes of it travel, its text does not."""
    serving = {"config.json", "generation_config.json", "preprocessor_config.json"}
    serving |= {"video_preprocessor_config.json", "tokenizer.json", "tokenizer_config.json"}
    serving |= {f"model-0000{number}-of-00003.safetensors" for number in (1, 2, 3)}
    records = {"results.json", "loss_curve.json", "loss_curve.png", "data_manifest.json", "CARD.md"}
    assert {f.name for f in shipped.iterdir()} == serving | records | {"model.safetensors.index.json"}
    manifest = record(shipped, "data_manifest.json")
    keys = {"name", "version", "licence", "files", "bytes", "held_out_files", "sha256"}
    assert all(source.keys() == keys for source in manifest["sources"])
    assert all(re.fullmatch(r"[\w./-]+\.py", module) for module in manifest["standard_library_modules"])


def test_this_project_was_not_trained_on(shipped: Path) -> None:
    names = [source["name"].lower() for source in record(shipped, "data_manifest.json")["sources"]]
    assert [name for name in names if name.startswith(("penny-", "penny_", "pennyroyal"))] == []


def test_the_manifest_names_only_permissive_sources(shipped: Path) -> None:
    manifest = record(shipped, "data_manifest.json")
    allowed = {"Apache-2.0", "BSD", "BSD-2-Clause", "BSD-3-Clause", "ISC", "MIT", "MIT-0", "MIT-CMU", "0BSD"}
    allowed |= {"PSF-2.0", "Python-2.0"}
    for source in manifest["sources"]:
        assert set(re.split(r" AND | OR ", source["licence"])) <= allowed, source["name"]
        assert re.fullmatch("[0-9a-f]{64}", source["sha256"])
    whole = hashlib.sha256()
    for source in manifest["sources"]:
        whole.update(bytes.fromhex(source["sha256"]))
    assert whole.hexdigest() == manifest["sha256"]
    assert sum(source["bytes"] for source in manifest["sources"]) == manifest["train_bytes"] + sum(
        manifest["held_out_bytes"].values()
    )
    assert "json/decoder.py" in manifest["standard_library_modules"]
