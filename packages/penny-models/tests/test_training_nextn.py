"""The NEXTN stage: its loss, its measure of acceptance against a decode loop, and what it may change."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from transformers.models.qwen3_5 import modeling_qwen3_5 as family
from typer.testing import CliRunner

from penny_models import tiny
from penny_models.training.__main__ import app
from penny_models.training.card import write_card
from penny_models.training.continuations import continue_prompts
from penny_models.training.data import write_json
from penny_models.training.install import install, install_nextn
from penny_models.training.loop import require_numbers
from penny_models.training.nextn.acceptance import drafts_of, measure, walk
from penny_models.training.nextn.losses import chain_losses
from penny_models.training.nextn.train import Sizes, own_text, read_model
from penny_models.training.origin import same_data, same_split
from penny_models.training.recipes import recipe
from penny_models.training.shards import TokenStream, save_streams

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def model():
    """tiny-27b with its trained NEXTN layer."""
    return read_model(tiny.path("tiny-27b"), recipe("tiny-27b"), CPU).eval()


@pytest.fixture
def transformers_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put back the kernel that a training run replaces."""
    monkeypatch.setattr(family, "torch_chunk_gated_delta_rule", family.torch_chunk_gated_delta_rule)


def test_each_step_learns_the_models_distribution_of_its_own_token() -> None:
    make = torch.Generator().manual_seed(1)
    main = torch.randn(2, 6, 5, generator=make)
    drafts = [torch.randn(2, 6, 5, generator=make) for _ in range(3)]
    first = torch.tensor([0, 2])
    for step, loss in enumerate(chain_losses(main, drafts, first), start=1):
        nats = []
        for row, start in enumerate(first.tolist()):
            for i in range(start, 6 - step):
                target = main[row, i + step].softmax(0)  # of token i + step + 1
                nats.append(-(target * drafts[step - 1][row, i].log_softmax(0)).sum().item())
        assert loss.item() == pytest.approx(sum(nats) / len(nats), rel=1e-5)


def test_a_walk_by_hand() -> None:
    """After the prompt [9, 9] comes 1 2 3 4 5 6 7 8; the chain drafts right at two places only."""
    text = torch.tensor([[9, 9, 1, 2, 3, 4, 5, 6, 7, 8]])
    drafted = torch.zeros(1, 7, 3, dtype=torch.long)
    drafted[0, 1] = torch.tensor([2, 3, 7])  # after token 1: two right, then the model says 4
    drafted[0, 4] = torch.tensor([0, 6, 7])  # after token 4: the first is wrong, whatever follows
    drafted[0, 5] = torch.tensor([6, 7, 8])  # after token 5: all three, and then no place is left
    found = walk(drafted, text, 2)
    assert found.verified == 3
    assert found.accepted.tolist() == [2, 2, 1]
    assert found.length == pytest.approx(1 + 5 / 3)
    assert found.by_slot == pytest.approx([2 / 3, 1.0, 1 / 2])


def decode(model, prompt: Tensor, new: int) -> list[int]:
    """Speculate as a server does, at temperature 0; return the tokens accepted by each verify.

    The chain gets its own drafts, not the text; the model is asked again for every prefix.
    """

    def choices(ids: Tensor) -> Tensor:
        return model.head(model.hidden(model.features(ids)))[0].argmax(-1)

    ids = torch.cat([prompt, choices(prompt)[-1:].unsqueeze(0)], 1)
    accepted: list[int] = []
    while ids.shape[1] + 3 <= prompt.shape[1] + new:  # a whole block is left
        features = model.features(ids[:, :-1])
        inputs, drafted = model.embed(ids[:, 1:]), []
        for _ in range(3):
            rotary = model.rotary(features, 0, features.shape[1])
            out, _ = model.draft_step(inputs, features, rotary, None, model.new_past(), None)
            drafted.append(model.head(out[:, -1]).argmax(-1))
            inputs = torch.cat([inputs, model.embed(drafted[-1].unsqueeze(0))], 1)
            features = torch.cat([features, out[:, -1:]], 1)
        block = torch.cat([ids, torch.stack(drafted, 1)], 1)
        wanted = choices(block)[-4:]
        right = (torch.cat(drafted) == wanted[:3]).long().cumprod(0).sum().item()
        accepted.append(int(right))
        ids = torch.cat([block[:, : ids.shape[1] + right], wanted[right].view(1, 1)], 1)
    return accepted


def test_the_walk_is_what_a_decode_loop_accepts(model, own_streams: dict[str, TokenStream]) -> None:
    prompt = torch.from_numpy(own_streams["code"].tokens[:40].astype("int64"))[None]
    with torch.no_grad():
        text = continue_prompts(model.base, prompt, 40, torch.zeros(1), 0)
        found = walk(drafts_of(model, text, 1), text, 40)
        looped = decode(model, prompt, 40)
    assert found.verified == len(looped)
    assert found.accepted.tolist() == [sum(n > k for n in looped) for k in range(3)]
    assert sum(looped) > len(looped) / 2  # the layer does draft


def test_measure_counts_all_kinds_together(model, own_streams: dict[str, TokenStream]) -> None:
    streams = {kind: torch.from_numpy(s.tokens[:600].astype("int64")) for kind, s in own_streams.items()}
    found = measure(model, streams, prompts=2, prompt=32, new=35, seed=3, rows=4)
    for temperature in ("temperature_0", "temperature_1"):
        rows = found[temperature]
        kinds = [rows[kind] for kind in ("code", "prose", "chat")]
        assert rows["all"]["verifies"] == sum(row["verifies"] for row in kinds)
        tokens = sum(row["verifies"] * row["tokens_per_verify"] for row in kinds)
        assert rows["all"]["tokens_per_verify"] == pytest.approx(tokens / rows["all"]["verifies"])
        for row in kinds:
            assert 1.0 <= row["tokens_per_verify"] <= 4.0
            assert 0.0 <= row["repeated_4_grams"] <= 1.0
            chain = [np.prod(row["accepted_by_slot"][: k + 1]) for k in range(3)]
            assert row["tokens_per_verify"] == pytest.approx(1 + sum(chain))


def test_own_text_is_every_other_row_greedy(model, own_streams: dict[str, TokenStream]) -> None:
    stream = torch.from_numpy(own_streams["chat"].tokens.astype("int64"))
    text = own_text(model, stream, Sizes(4, 4, 32, 61), 5)
    assert text.shape == (4, 64)
    with torch.no_grad():
        greedy = continue_prompts(model.base, text[:, :32].long(), 32, torch.zeros(4), 0)
    same = [torch.equal(a, b) for a, b in zip(text.long(), greedy, strict=True)]
    assert same == [True, False, True, False]


@pytest.mark.usefixtures("transformers_kernel")
def test_only_the_mtp_layer_changes(own_streams: dict[str, TokenStream], tmp_path: Path) -> None:
    data, shipped = tmp_path / "data", tiny.path("tiny-27b")
    data.mkdir()
    train = TokenStream(np.concatenate([s.tokens for s in own_streams.values()]), 1)
    save_streams(data / "train.npz", {"train": train})
    save_streams(data / "held_out.npz", own_streams)
    manifest = json.loads((shipped / "data_manifest.json").read_text())
    write_json(data / "manifest.json", {**manifest, "name": "tiny-27b", "train_tokens_sha256": "ab" * 32})
    (data / "tokenizer").mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(shipped / name, data / "tokenizer" / name)
    options = ["--out", str(tmp_path / "out"), "--steps", "3", "--small"]
    result = CliRunner().invoke(app, ["nextn", str(data), str(shipped), *options])
    assert result.exit_code == 0, result.output

    def tensors(folder: Path) -> dict[str, Tensor]:
        found: dict[str, Tensor] = {}
        for shard in folder.glob("*.safetensors"):
            found |= load_file(shard)
        return found

    before, after = tensors(shipped), tensors(tmp_path / "out")
    assert before.keys() == after.keys()
    changed = {name for name, value in after.items() if not torch.equal(value, before[name])}
    assert changed
    assert all(name.startswith("mtp.") for name in changed)
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    was = json.loads((shipped / "results.json").read_text())
    assert results["held_out"]["model"]["bits_per_byte"] == was["held_out"]["model"]["bits_per_byte"]
    assert results["nextn"]["steps"] == 3
    assert list(results["held_out"]["model"]["mtp_top1_accuracy"]) == ["step1", "step2", "step3"]
    curve = json.loads((tmp_path / "out" / "nextn_curve.json").read_text())
    assert curve["columns"] == ["step", "seconds", "tokens", "rate", "mtp1", "mtp2", "mtp3"]
    assert curve["rows"][-1][:1] == [3]
    installed = shutil.copytree(shipped, tmp_path / "checkpoint")
    report = install_nextn(tmp_path / "out", installed)
    assert report.parameters == was["parameters"]
    assert tensors(installed).keys() == before.keys()
    assert all(torch.equal(value, after[name]) for name, value in tensors(installed).items())
    assert (installed / "nextn_curve.json").read_bytes() == (
        tmp_path / "out" / "nextn_curve.json"
    ).read_bytes()
    assert (installed / "CARD.md").read_text() == write_card(results, manifest)
    assert "the SHA-256\n`abababababababab`" in (installed / "CARD.md").read_text()
    with pytest.raises(ValueError, match="out did not start from tiny-next"):
        install_nextn(tmp_path / "out", tiny.path("tiny-next"))
    card = write_card(results, {**manifest, "name": "tiny-27b"})
    found = results["held_out"]["model"]["nextn_acceptance"]["temperature_1"]["all"]["tokens_per_verify"]
    assert f"| 1 | all | {found:.2f} |" in card
    assert "in 3 steps of 2 rows of 64 positions" in card
    assert "the weights are mtp1 1, mtp2 0.8, mtp3 0.6" in card


def test_an_installation_that_cannot_be_whole_leaves_what_is_there(tmp_path: Path) -> None:
    (tmp_path / "data" / "tokenizer").mkdir(parents=True)
    write_json(tmp_path / "data" / "manifest.json", {"train_tokens_sha256": "ab" * 32})
    (tmp_path / "out").mkdir()
    write_json(tmp_path / "out" / "results.json", {"name": "tiny-27b", "train_tokens_sha256": "ab" * 32})
    old = tmp_path / "checkpoint" / "model.safetensors"
    old.parent.mkdir()
    old.write_bytes(b"weights")
    with pytest.raises(FileNotFoundError, match=r"lacks model\.safetensors\.index\.json, loss_curve\.json"):
        install(tmp_path / "data", tmp_path / "out", old.parent)
    assert old.read_bytes() == b"weights"


def test_a_run_on_other_data_is_refused(tmp_path: Path) -> None:
    same_data({"train_tokens_sha256": "ab" * 32}, {"train_tokens_sha256": "ab" * 32})
    with pytest.raises(
        ValueError, match=r"SHA-256 abababababab\.\.\., and the data folder's have cdcdcdcdcdcd"
    ):
        same_data({"train_tokens_sha256": "ab" * 32}, {"train_tokens_sha256": "cd" * 32})


def test_data_of_another_day_serve_if_the_split_is_the_same(tmp_path: Path) -> None:
    shipped = tiny.path("tiny-27b")
    manifest = json.loads((shipped / "data_manifest.json").read_text())
    (tmp_path / "tokenizer").mkdir()
    shutil.copyfile(shipped / "tokenizer.json", tmp_path / "tokenizer" / "tokenizer.json")
    write_json(tmp_path / "manifest.json", manifest | {"train_tokens_sha256": "cd" * 32})
    same_split(shipped, tmp_path)
    write_json(
        tmp_path / "manifest.json", manifest | {"held_out_one_in": {"code": 2, "prose": 24, "chat": 64}}
    )
    with pytest.raises(ValueError, match="tiny-27b was trained with another split"):
        same_split(shipped, tmp_path)
    write_json(tmp_path / "manifest.json", manifest)
    (tmp_path / "tokenizer" / "tokenizer.json").write_text("{}")
    with pytest.raises(ValueError, match="tokenizer is not that of tiny-27b"):
        same_split(shipped, tmp_path)


def test_a_loss_that_is_not_a_number_ends_the_run() -> None:
    require_numbers({"main": 1.0, "mtp1": 2.0}, 7)
    with pytest.raises(FloatingPointError, match="not a number at step 7"):
        require_numbers({"main": 1.0, "mtp1": float("nan")}, 7)
