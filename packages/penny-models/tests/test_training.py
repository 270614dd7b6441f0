"""Kernels, optimiser, model, export and a whole small training run."""

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer
from torch import Tensor, nn
from transformers.models.qwen3_5 import modeling_qwen3_5 as family
from typer.testing import CliRunner

from penny_models import check_checkpoint, tiny
from penny_models.training.__main__ import app
from penny_models.training.card import write_card
from penny_models.training.data import baselines, write_json
from penny_models.training.dense.model import TinyDense
from penny_models.training.dense.mtp import StepCache
from penny_models.training.draft_mask import draft_step_mask
from penny_models.training.export import checkpoint_tensors, load_tensors, write_checkpoint
from penny_models.training.gdn import chunk_gated_delta_rule, inverse_unit_lower
from penny_models.training.install import install
from penny_models.training.optim import Adam, Muon, orthogonalise
from penny_models.training.schedule import rate_factor
from penny_models.training.shards import TokenStream, load_streams, save_streams


@pytest.fixture
def transformers_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put back the kernel that a training run replaces."""
    monkeypatch.setattr(family, "torch_chunk_gated_delta_rule", family.torch_chunk_gated_delta_rule)


@pytest.fixture(scope="module")
def shipped_tensors() -> dict[str, Tensor]:
    tensors: dict[str, Tensor] = {}
    for shard in tiny.path("tiny-27b").glob("*.safetensors"):
        tensors |= load_file(shard)
    return tensors


@pytest.fixture(scope="module")
def trained(shipped_tensors: dict[str, Tensor]) -> TinyDense:
    model = TinyDense().eval()
    load_tensors(model, shipped_tensors)
    return model


def gdn_inputs(batch: int, length: int, heads: int, keys: int, values: int) -> list[Tensor]:
    make = torch.Generator().manual_seed(length)
    query, key = (torch.randn(batch, length, heads, keys, generator=make) for _ in range(2))
    value = torch.randn(batch, length, heads, values, generator=make)
    decay = -torch.rand(batch, length, heads, generator=make) * 0.5
    beta = torch.rand(batch, length, heads, generator=make)
    return [x.requires_grad_() for x in (query, key, value, decay, beta)]


@pytest.mark.parametrize(
    ("batch", "length", "heads", "keys", "values"),
    [(1, 64, 1, 8, 8), (2, 192, 3, 16, 24), (1, 256, 2, 32, 16)],
)
def test_the_chunked_rule_equals_the_recurrent_one(
    batch: int, length: int, heads: int, keys: int, values: int
) -> None:
    inputs = gdn_inputs(batch, length, heads, keys, values)
    found, state = chunk_gated_delta_rule(*inputs)
    assert state is None
    truth, _ = family.torch_recurrent_gated_delta_rule(
        *inputs, initial_state=None, output_final_state=False, use_qk_l2norm_in_kernel=True
    )
    torch.testing.assert_close(found, truth, rtol=1e-4, atol=2e-5)

    toward = torch.randn(found.shape, generator=torch.Generator().manual_seed(1))
    gradients = torch.autograd.grad((found * toward).sum(), inputs)
    expected = torch.autograd.grad((truth * toward).sum(), inputs)
    for gradient, wanted in zip(gradients, expected, strict=True):
        torch.testing.assert_close(gradient, wanted, rtol=1e-3, atol=1e-4)


def test_the_chunked_rule_refuses_what_it_cannot_do() -> None:
    inputs = gdn_inputs(1, 60, 1, 8, 8)
    with pytest.raises(ValueError, match="must be a multiple of 64; it is 60"):
        chunk_gated_delta_rule(*inputs)
    with pytest.raises(ValueError, match="keeps no state"):
        chunk_gated_delta_rule(*inputs, output_final_state=True)


@pytest.mark.parametrize("size", [1, 2, 8, 64])
def test_inverse_of_unit_lower_triangles(size: int) -> None:
    whole = torch.randn(3, 2, size, size, generator=torch.Generator().manual_seed(size), dtype=torch.float64)
    whole = whole / size
    truth = torch.linalg.inv(whole.tril(-1) + torch.eye(size, dtype=torch.float64))
    torch.testing.assert_close(inverse_unit_lower(whole), truth)


@pytest.mark.parametrize("shape", [(2, 64, 32), (1, 32, 96), (3, 48, 48)])
def test_orthogonalise_keeps_directions(shape: tuple[int, ...]) -> None:
    batch = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    found = orthogonalise(batch)
    for matrix, before in zip(found, batch, strict=True):
        left, _, right = torch.linalg.svd(before, full_matrices=False)
        inner = left.T @ matrix @ right.T
        singular = inner.diagonal()
        torch.testing.assert_close(inner, torch.diag(singular), rtol=0, atol=1e-3)
        # The iteration's coefficients bring every value that is not tiny into about [0.7, 1.2].
        assert singular.min() > 0.3
        assert singular.max() < 1.3


def test_muon_moves_against_the_gradient() -> None:
    parameter = nn.Parameter(torch.zeros(8, 2))
    parameter.grad = torch.cat([torch.eye(2) * 5, torch.zeros(6, 2)])
    Muon([parameter], rate=0.1, decay=0.0).step(torch.tensor(0.5))
    # Rate 0.1 times scale 0.5 times sqrt(8 / 2), whatever the length of the gradient.
    moved = -parameter.detach() / 0.1
    assert 0.7 < moved[0, 0] < 1.2
    torch.testing.assert_close(moved[0, 0], moved[1, 1])
    assert moved[2:].abs().max() == moved[0, 1] == 0


def test_muon_takes_a_stack_as_its_matrices() -> None:
    make = torch.Generator().manual_seed(2)
    stack, single = (
        nn.Parameter(torch.randn(3, 6, 4, generator=make)),
        nn.Parameter(torch.randn(6, 4, generator=make)),
    )
    apart = [nn.Parameter(matrix.clone()) for matrix in [*stack.detach(), single.detach()]]
    together, one_by_one = Muon([stack, single], 0.1, 0.01), [Muon([p], 0.1, 0.01) for p in apart]
    for _ in range(2):
        stack.grad = torch.randn(stack.shape, generator=make)
        single.grad = torch.randn(single.shape, generator=make)
        for parameter, grad in zip(apart, [*stack.grad, single.grad], strict=True):
            parameter.grad = grad.clone()
        for rule in (together, *one_by_one):
            rule.step(torch.tensor(0.5))
    for found, wanted in zip([*stack.detach(), single.detach()], apart, strict=True):
        torch.testing.assert_close(found, wanted.detach(), rtol=1e-4, atol=1e-5)


def test_adam_is_that_of_torch() -> None:
    make = torch.Generator().manual_seed(0)
    ours = [nn.Parameter(torch.randn(5, 3, generator=make)), nn.Parameter(torch.randn(7, generator=make))]
    theirs = [nn.Parameter(parameter.detach().clone()) for parameter in ours]
    adam = Adam(ours, rate=0.01)
    truth = torch.optim.Adam(theirs, lr=0.01, betas=(0.9, 0.98), eps=1e-10)
    for _ in range(5):
        for mine, other in zip(ours, theirs, strict=True):
            mine.grad = torch.randn(mine.shape, generator=make)
            other.grad = mine.grad.clone()
        adam.step(torch.tensor(1.0))
        truth.step()
    for mine, other in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, other, rtol=1e-5, atol=1e-6)


def test_the_schedule() -> None:
    shown = [0.01, 0.02, 0.3, 0.4, 0.7, 1.0, 1.1]
    assert [rate_factor(progress) for progress in shown] == pytest.approx([0.5, 1, 1, 1, 0.5, 0, 0])
    assert 0 < rate_factor(0.0) < 0.01


def test_every_draft_step_sees_what_decoding_would(trained: TinyDense) -> None:
    """Decoding after a position: one MTP pass over all before it, then one position more for each further step."""
    tokens = torch.randint(0, 4000, (1, 24), generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        _, *drafts = trained(tokens[:, :23])
        states = trained.features(tokens[:, :20])
        embedded = trained.text.embed_tokens(tokens)
        for last in (0, 7, 19):
            inputs = embedded[:, 1 : last + 2]
            features = states[:, : last + 1]
            for step, together in enumerate(drafts):
                rotary = trained.text.rotary_emb(features, torch.arange(last + 1 + step).expand(3, 1, -1))
                out = trained.mtp(inputs, features, rotary, StepCache(), None)
                torch.testing.assert_close(
                    trained.base.lm_head(out[:, -1]), together[:, last], rtol=1e-4, atol=1e-4
                )
                inputs = torch.cat([inputs, embedded[:, last + 2 + step, None]], 1)
                features = torch.cat([features, out[:, -1:]], 1)


def test_draft_step_mask() -> None:
    first = [[1, 0], [1, 1]]
    third = [[1, 0, 1, 0, 1, 0], [1, 1, 0, 1, 0, 1]]
    assert draft_step_mask(2, 1, torch.device("cpu"))[0, 0].int().tolist() == first
    assert draft_step_mask(2, 3, torch.device("cpu"))[0, 0].int().tolist() == third


def test_losses_are_of_one_to_four_tokens_ahead(trained: TinyDense) -> None:
    window = torch.randint(0, 4000, (2, 36), generator=torch.Generator().manual_seed(6))
    with torch.no_grad():
        losses = trained.losses(window)
        out = trained(window[:, :-1])
    assert list(losses) == ["main", "mtp1", "mtp2", "mtp3"]
    for ahead, (loss, logits) in enumerate(zip(losses.values(), out, strict=True), start=1):
        chances = logits.log_softmax(-1)
        nats = [-chances[row, t, window[row, t + ahead]].item() for row in range(2) for t in range(32)]
        assert loss.item() == pytest.approx(sum(nats) / len(nats), rel=1e-5)


def test_export_gives_back_the_shipped_tensors(
    trained: TinyDense, shipped_tensors: dict[str, Tensor], tmp_path: Path
) -> None:
    shards = write_checkpoint(trained, tmp_path)
    assert all(shard.stat().st_size < 4_000_000 for shard in shards)
    again: dict[str, Tensor] = {}
    for shard in shards:
        again |= load_file(shard)
    assert again.keys() == shipped_tensors.keys()
    for name, tensor in again.items():
        assert tensor.dtype == shipped_tensors[name].dtype
        assert torch.equal(tensor, shipped_tensors[name])


def test_a_new_model_rounds_to_a_good_checkpoint() -> None:
    torch.manual_seed(0)
    tensors = checkpoint_tensors(TinyDense())
    assert {tensor.dtype for name, tensor in tensors.items() if not name.endswith("A_log")} == {
        torch.bfloat16
    }
    logs = [tensor for name, tensor in tensors.items() if name.endswith("A_log")]
    assert len(logs) == 6
    assert all(
        tensor.dtype == torch.float32 and torch.equal(tensor, tensor.bfloat16().float()) for tensor in logs
    )


@pytest.fixture(scope="module")
def small_data(tmp_path_factory: pytest.TempPathFactory, own_streams: dict[str, TokenStream]) -> Path:
    """A data folder made from the tests' own sample, for training and evaluation alike."""
    folder = tmp_path_factory.mktemp("data")
    shipped = tiny.path("tiny-27b")
    (folder / "tokenizer").mkdir()
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(shipped / name, folder / "tokenizer" / name)
    train = TokenStream(np.concatenate([s.tokens for s in own_streams.values()]), 1)
    save_streams(folder / "train.npz", {"train": train})
    save_streams(folder / "held_out.npz", own_streams)
    write_json(folder / "baselines.json", baselines(train, own_streams))
    manifest = json.loads((shipped / "data_manifest.json").read_text())
    write_json(folder / "manifest.json", {"name": "tiny-27b", **manifest})
    return folder


def test_streams_survive_their_file(small_data: Path, own_texts: dict[str, list[str]]) -> None:
    streams = load_streams(small_data / "held_out.npz")
    assert list(streams) == ["code", "prose", "chat"]
    assert streams["code"].tokens.dtype == np.uint16
    tokenizer = Tokenizer.from_file(str(tiny.path("tiny-27b") / "tokenizer.json"))
    decoded = tokenizer.decode(streams["prose"].tokens.tolist(), skip_special_tokens=False)
    assert decoded.split("<|endoftext|>") == ["", *own_texts["prose"], ""]
    assert streams["prose"].text_bytes == sum(len(text.encode()) for text in own_texts["prose"])


@pytest.mark.usefixtures("transformers_kernel")
def test_a_small_run_from_data_to_checkpoint(small_data: Path, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib", reason="the loss curve's picture needs the training extra")

    def train(name: str, seed: int) -> Any:
        options = f"--steps 4 --batch 2 --length 64 --evaluated 300 --seed {seed}".split()
        result = CliRunner().invoke(app, ["train", str(small_data), "--out", str(tmp_path / name), *options])
        assert result.exit_code == 0, result.output
        return json.loads((tmp_path / name / "results.json").read_text())

    results, again, other = train("one", 3), train("two", 3), train("three", 4)
    assert (results["steps"], results["tokens"], results["seed"]) == (4, 4 * 2 * 64, 3)
    assert results["held_out"]["model"] == again["held_out"]["model"]
    assert results["held_out"]["model"] != other["held_out"]["model"]
    # One token of 4,096 is 12 bits; a few bytes share it, and four steps do not help yet.
    assert 2 < results["held_out"]["model"]["bits_per_byte"]["all"] < 8

    report = install(small_data, tmp_path / "one", tmp_path / "checkpoint")
    assert report == check_checkpoint(tmp_path / "checkpoint")
    assert report.parameters == results["parameters"]
    manifest = json.loads((small_data / "manifest.json").read_text())
    assert (tmp_path / "checkpoint" / "CARD.md").read_text(encoding="utf-8") == write_card(results, manifest)
    assert (tmp_path / "checkpoint" / "loss_curve.png").read_bytes().startswith(b"\x89PNG")
    # Whatever is installed has the files that are shipped, less those of a later stage: none holds text of the corpus.
    installed, shipped = tmp_path / "checkpoint", tiny.path("tiny-27b")
    later = {"nextn_curve.json"}
    assert {file.name for file in installed.iterdir()} == {file.name for file in shipped.iterdir()} - later
    for name in ("config", "generation_config", "preprocessor_config", "video_preprocessor_config"):
        assert (installed / f"{name}.json").read_text() == (shipped / f"{name}.json").read_text()


@pytest.mark.parametrize("arguments", ["train nowhere --out out", "install nowhere nowhere out"])
def test_a_missing_folder_is_wrong_usage(arguments: str) -> None:
    result = CliRunner().invoke(app, arguments.split())
    assert result.exit_code == 2
    assert "'nowhere' does not exist" in " ".join(result.output.split())


def test_the_commands_of_the_card_exist() -> None:
    for command in ("data", "train", "install"):
        assert CliRunner().invoke(app, [command, "--help"]).exit_code == 0
        assert f"python -m penny_models.training {command} " in tiny.card("tiny-27b")
