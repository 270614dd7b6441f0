"""The shipped checkpoints: their place, their limits, and records that agree with each other."""

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
from penny_models.training.card import write_card, write_draft_card


def record(folder: Path, name: str) -> Any:
    return json.loads((folder / name).read_text(encoding="utf-8"))


def weights(folder: Path) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = {}
    for shard in folder.glob("*.safetensors"):
        tensors |= load_file(shard)
    return tensors


@pytest.fixture(params=["tiny-27b", "tiny-next"])
def either(request: pytest.FixtureRequest) -> Path:
    return tiny.path(request.param)


def test_names_and_path(shipped: Path) -> None:
    assert tiny.names() == ["tiny-27b", "tiny-27b-dflash2", "tiny-next"]
    assert shipped.name == "tiny-27b"
    assert shipped.is_dir()


def test_an_unknown_name_gets_the_nearest() -> None:
    with pytest.raises(
        ValueError,
        match=r"named 'tiny27'; shipped: tiny-27b, tiny-27b-dflash2, tiny-next. Did you mean tiny-27b\?",
    ):
        tiny.path("tiny27")
    with pytest.raises(ValueError, match=r"named '\.\./tiny-27b'"):
        tiny.card("../tiny-27b")


@pytest.mark.parametrize(
    ("name", "limit"), [("tiny-27b", 8_500_000), ("tiny-27b-dflash2", 5_000_000), ("tiny-next", 10_000_000)]
)
def test_size_limits(name: str, limit: int) -> None:
    folder = tiny.path(name)
    assert sum(file.stat().st_size for file in folder.iterdir()) <= limit
    assert max(file.stat().st_size for file in folder.glob("*.safetensors")) < 4_000_000
    total = record(folder, "model.safetensors.index.json")["metadata"]["total_size"]
    assert check_checkpoint(folder).bytes == total


def test_all_together_are_small() -> None:
    files = [file for name in tiny.names() for file in tiny.path(name).iterdir()]
    assert sum(file.stat().st_size for file in files) <= 24_000_000


def test_the_token_map_is_what_its_manifest_says() -> None:
    """Digests by hashlib, form by torch; the tokenizer is that of both checkpoints."""
    file = tiny.token_map("tiny-next-2k")
    manifest = record(file.parent, "tiny-next-2k.manifest.json")
    ids = torch.load(file, weights_only=True)
    assert (ids.dtype, ids.shape) == (torch.int64, (2048,))
    assert ids.tolist() == sorted(set(ids.tolist()) & set(range(4096)))
    assert hashlib.sha256(file.read_bytes()).hexdigest() == manifest["map_sha256"]
    assert hashlib.sha256(ids.numpy().astype("<i8").tobytes()).hexdigest() == manifest["ids_sha256"]
    for name in ("tiny-next", "tiny-27b"):
        definition = (tiny.path(name) / "tokenizer.json").read_bytes()
        assert hashlib.sha256(definition).hexdigest() == manifest["tokenizer_sha256"]
        special = {token["id"] for token in json.loads(definition)["added_tokens"]}
        assert special <= set(ids.tolist())
    assert all(row["share"] >= 0.95 for row in manifest["held_out"])
    assert file.stat().st_size < 20_000
    with pytest.raises(ValueError, match="no token map named 'tiny-next'; shipped: tiny-next-2k"):
        tiny.token_map("tiny-next")


def test_the_drafts_card_is_written_from_its_records() -> None:
    folder = tiny.path("tiny-27b-dflash2")
    card = write_draft_card(record(folder, "results.json"), record(folder, "config.json"))
    assert tiny.card("tiny-27b-dflash2") == card


def test_published_acceptance_of_the_drafts() -> None:
    """At temperature 0: NEXTN of at most 4, the DFlash2 block of at most 8, and the share that says how easy it was."""
    for name, key, least in (
        ("tiny-27b", "nextn_acceptance", 2.0),
        ("tiny-next", "nextn_acceptance", 2.0),
        ("tiny-27b-dflash2", "acceptance", 2.8),
    ):
        results = record(tiny.path(name), "results.json")
        measured = results.get(key) or results["held_out"]["model"][key]
        greedy, drawn = (measured[f"temperature_{heat}"]["all"] for heat in (0, 1))
        assert greedy["tokens_per_verify"] >= least
        assert 0 < drawn["repeated_4_grams"] < greedy["repeated_4_grams"] < 1
        slots = greedy["accepted_by_slot"]
        # The mean of a chain: one token of the target, and each draft that was accepted with all before it.
        expected = 1 + sum(np.cumprod(slots))
        assert greedy["tokens_per_verify"] == pytest.approx(expected, rel=1e-6)


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


def test_weights_are_finite_and_trained(either: Path) -> None:
    for name, tensor in weights(either).items():
        assert torch.isfinite(tensor).all(), name
        if name.endswith(("o_proj.weight", "out_proj.weight", "down_proj.weight")):
            assert tensor.float().std() > 1e-3, name  # training starts them at zero
        if name.endswith("A_log"):
            assert torch.equal(tensor, tensor.bfloat16().float()), name


def test_shards_say_that_they_are_for_torch(either: Path) -> None:
    for shard in either.glob("*.safetensors"):
        with safe_open(shard, "pt") as file:
            assert file.metadata() == {"format": "pt"}


def test_the_card_is_written_from_the_records(either: Path) -> None:
    results, manifest = record(either, "results.json"), record(either, "data_manifest.json")
    assert tiny.card(either.name) == write_card(results, manifest)


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


def test_records_agree_with_the_weights(either: Path) -> None:
    results = record(either, "results.json")
    assert results["parameters"] == check_checkpoint(either).parameters
    curve = record(either, "loss_curve.json")
    last = dict(zip(curve["columns"], curve["rows"][-1], strict=True))
    assert (last["step"], last["tokens"]) == (results["steps"], results["tokens"])
    assert results["tokens"] == results["steps"] * results["batch"] * results["sequence_length"]
    assert last["main"] < curve["rows"][0][curve["columns"].index("main")] / 3
    assert results["training_seconds"] <= 600


def test_the_published_quality_beats_the_baselines(either: Path) -> None:
    held = record(either, "results.json")["held_out"]
    for kind in ("code", "prose", "chat", "all"):
        model = held["model"]["bits_per_byte"][kind]
        assert model < 0.7 * held["trigram"][kind]
        assert held["trigram"][kind] < held["unigram"][kind]


def test_no_text_of_the_corpus_is_shipped(either: Path) -> None:
    """The corpus is other people's work: names, versions and hashes of it travel, its text does not."""
    serving = {"config.json", "generation_config.json", "preprocessor_config.json"}
    serving |= {"video_preprocessor_config.json", "tokenizer.json", "tokenizer_config.json"}
    serving |= {f"model-0000{number}-of-00003.safetensors" for number in (1, 2, 3)}
    records = {
        "results.json",
        "loss_curve.json",
        "loss_curve.png",
        "nextn_curve.json",
        "data_manifest.json",
        "CARD.md",
    }
    assert {f.name for f in either.iterdir()} == serving | records | {"model.safetensors.index.json"}
    manifest = record(either, "data_manifest.json")
    keys = {"name", "version", "licence", "files", "bytes", "held_out_files", "sha256"}
    assert all(source.keys() == keys for source in manifest["sources"])
    assert all(re.fullmatch(r"[\w./-]+\.py", module) for module in manifest["standard_library_modules"])


def test_this_project_was_not_trained_on(either: Path) -> None:
    names = [source["name"].lower() for source in record(either, "data_manifest.json")["sources"]]
    assert [name for name in names if name.startswith(("penny-", "penny_", "pennyroyal"))] == []


def test_the_manifest_names_only_permissive_sources(either: Path) -> None:
    manifest = record(either, "data_manifest.json")
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
