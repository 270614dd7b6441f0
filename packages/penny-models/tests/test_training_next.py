"""The training forms of Flash-Next: each equals transformers' own module, or a plain loop."""

import json
import math
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import Qwen4ExpConfig, Qwen4ExpForConditionalGeneration
from transformers.models.qwen4_exp import modeling_qwen4_exp as family
from typer.testing import CliRunner

from penny_models import check_checkpoint
from penny_models.training.__main__ import app
from penny_models.training.continuations import continue_prompts
from penny_models.training.data import baselines, write_json
from penny_models.training.export import load_tensors, write_checkpoint
from penny_models.training.freeze import freeze
from penny_models.training.install import install
from penny_models.training.next.config import model_config
from penny_models.training.next.experts import all_experts, balance_loss
from penny_models.training.next.indexer import block_scores, indexer_loss, selected_tokens
from penny_models.training.next.measure import measure, without_ple
from penny_models.training.next.model import Pass, TinyNext, use_training_kernels
from penny_models.training.next.train_indexer import train_indexer
from penny_models.training.optim import Optimiser
from penny_models.training.shards import TokenStream, save_streams

CPU = torch.device("cpu")


@pytest.fixture
def training_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """The training forms, for one test."""
    monkeypatch.setattr(family, "torch_chunk_gated_delta_rule", family.torch_chunk_gated_delta_rule)
    monkeypatch.setattr(family.Qwen4ExpTextExperts, "forward", family.Qwen4ExpTextExperts.forward)
    monkeypatch.setattr(family.Qwen4ExpTextQSAIndexer, "forward", family.Qwen4ExpTextQSAIndexer.forward)
    use_training_kernels()


def stirred(seed: int) -> TinyNext:
    """An untrained model in which nothing is zero."""
    torch.manual_seed(seed)
    model = TinyNext().eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn_like(parameter) * 0.05)
    return model


@pytest.fixture(scope="module")
def model() -> TinyNext:
    return stirred(1)


@pytest.fixture(scope="module")
def tokens() -> Tensor:
    made = torch.randint(0, 4000, (2, 67), generator=torch.Generator().manual_seed(2))
    made[0, 30] = model_config()["text_config"]["eos_token_id"]  # n-grams start anew after it
    return made


@pytest.fixture(scope="module")
def truth(model: TinyNext, tokens: Tensor) -> Tensor:
    """Transformers' own logits, with its own kernels."""
    with torch.no_grad():
        logits: Tensor = model.base(input_ids=tokens[:, :64]).logits
    return logits


@pytest.mark.usefixtures("training_kernels")
@pytest.mark.parametrize("sparse", [False, True])
def test_the_forward_pass_is_that_of_transformers(
    model: TinyNext, tokens: Tensor, truth: Tensor, sparse: bool
) -> None:
    model.sparse = sparse  # within the budget selection takes every block
    with torch.no_grad():
        main, *drafts = model(tokens)
    model.sparse = False
    torch.testing.assert_close(main, truth, rtol=1e-4, atol=1e-5)
    assert [tuple(logits.shape) for logits in drafts] == [(2, 64, 4096)] * 3


def test_own_text_is_that_of_transformers(model: TinyNext, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decoding from a cache, without the indexers' loop, up to their budget and no further."""
    prompt = torch.randint(0, 4000, (2, 21), generator=torch.Generator().manual_seed(11))
    with torch.no_grad():
        ids = prompt
        for _ in range(6):  # from the start each time, with transformers' own kernels
            ids = torch.cat([ids, model.base(input_ids=ids).logits[:, -1:].argmax(-1)], 1)
        monkeypatch.setattr(family.Qwen4ExpTextQSAIndexer, "forward", family.Qwen4ExpTextQSAIndexer.forward)
        monkeypatch.setattr(family, "torch_chunk_gated_delta_rule", family.torch_chunk_gated_delta_rule)
        monkeypatch.setattr(family.Qwen4ExpTextExperts, "forward", family.Qwen4ExpTextExperts.forward)
        use_training_kernels()
        assert torch.equal(continue_prompts(model.base, prompt, 6, torch.zeros(2), 0), ids)
        monkeypatch.setattr(model.text.layers[2].self_attn.indexer, "block_topk", 5)
        with pytest.raises(ValueError, match="sequence of 24 tokens is beyond the indexer's budget"):
            continue_prompts(model.base, prompt, 6, torch.zeros(2), 0)


def small_indexer(budget: int) -> Any:
    text = {**model_config()["text_config"], "indexer_budget": budget}
    torch.manual_seed(3)
    indexer = family.Qwen4ExpTextQSAIndexer(Qwen4ExpConfig(text_config=text).text_config, 2)
    with torch.no_grad():
        indexer.q_layernorm.weight.normal_(std=0.3)
        indexer.k_layernorm.weight.normal_(std=0.3)
    return indexer


@pytest.mark.parametrize("length", [3, 40, 45])
def test_selection_is_that_of_transformers(model: TinyNext, length: int) -> None:
    indexer = small_indexer(16)  # four blocks of four tokens
    x = torch.randn(2, length, 128, generator=torch.Generator().manual_seed(length))
    rotary = tuple(table.expand(2, -1, -1) for table in model.rotary(x, 0, length))
    causal = torch.ones(length, length, dtype=torch.bool).tril().expand(2, 1, -1, -1)
    with torch.no_grad():
        wanted = indexer(x, rotary, causal, None) & causal
        found = selected_tokens(block_scores(indexer, x, rotary), length, 4, indexer.block_topk)
    assert torch.equal(found, wanted)
    # Four blocks of four, and the tokens after the last complete block.
    assert found.sum(-1)[0, 0].tolist() == [min(t + 1, 16 + (t + 1) % 4) for t in range(length)]


def test_the_indexer_learns_the_attention_over_blocks() -> None:
    make = torch.Generator().manual_seed(4)
    query, key = (torch.randn(1, heads, 10, 8, generator=make) for heads in (4, 2))
    chances = torch.zeros(10, 2)
    for head in range(4):
        for t in range(10):
            logits = torch.stack([query[0, head, t] @ key[0, head // 2, s] for s in range(t + 1)]) * 0.5
            weights = logits.softmax(0)
            for block in range((t + 1) // 4):
                chances[t, block] += weights[4 * block : 4 * block + 4].sum() / 4
    scores = torch.randn(1, 10, 2, generator=make)
    ends = torch.tensor([3, 7])
    scores = scores.masked_fill(ends > torch.arange(10)[:, None], -math.inf).requires_grad_()
    # Only the queries from the eighth on have two blocks to choose from.
    wanted = []
    for t in (7, 8, 9):
        target = chances[t] / chances[t].sum()
        own = scores[0, t].softmax(0)
        wanted.append((target * (target / own).log()).sum())
    loss = indexer_loss(scores, query, key, 0.5, 4)
    assert loss.item() == pytest.approx(torch.stack(wanted).mean().item(), rel=1e-5)
    (gradient,) = torch.autograd.grad(loss, scores)
    target = chances[9] / chances[9].sum()
    torch.testing.assert_close(gradient[0, 9], (scores[0, 9].softmax(0) - target) / 3)
    assert gradient[0, :7].abs().max() == 0


def test_all_experts_is_the_sum_over_the_chosen(model: TinyNext) -> None:
    mlp = model.text.layers[0].mlp
    x = torch.randn(50, 128, generator=torch.Generator().manual_seed(5))
    with torch.no_grad():
        _, weights, chosen = mlp.gate(x)
        wanted = torch.stack([_one_token(mlp.experts, *row) for row in zip(x, chosen, weights, strict=True)])
        torch.testing.assert_close(all_experts(mlp.experts, x, chosen, weights), wanted, rtol=1e-4, atol=1e-5)


def _one_token(experts: Any, x: Tensor, chosen: Tensor, weights: Tensor) -> Tensor:
    out = torch.zeros_like(x)
    for expert, weight in zip(chosen.tolist(), weights, strict=True):
        gate, up = (experts.gate_up_proj[expert] @ x).chunk(2)
        out += weight * (experts.down_proj[expert] @ (nn.functional.silu(gate) * up))
    return out


def test_matrices_go_to_muon_and_the_rest_to_adam() -> None:
    model = TinyNext()
    freeze(model, ("visual.", "indexer."))
    muon, tables, rest = Optimiser(model, CPU).rules
    named = {id(parameter): name for name, parameter in model.named_parameters()}
    assert {named[id(p)] for p in tables.parameters} == {
        "base.model.language_model.embed_tokens.weight",
        "base.lm_head.weight",
        "base.model.language_model.layers.1.ple.ple_embedding.ngram_embedding.weight",
    }
    layer = "base.model.language_model.layers.1."
    matrices = {named[id(p)] for group in muon.groups for p in group}
    others = {named[id(p)] for p in rest.parameters}
    for name in ("mlp.experts.gate_up_proj", "ple.key_proj.weight", "linear_attn.in_proj_qkv.weight"):
        assert layer + name in matrices
    for name in (
        "mlp.gate.weight",
        "ple.conv1d.weight",
        "linear_attn.A_log",
        "mlp.shared_expert_gate.weight",
    ):
        assert layer + name in others
    trained = {name for name, p in model.named_parameters() if p.requires_grad}
    assert len(matrices) + len(others) + 3 == len(trained)
    assert matrices | others < trained


def test_balance_loss() -> None:
    even = torch.zeros(4, 4)
    assert balance_loss(even, torch.tensor([[0], [1], [2], [3]])).item() == pytest.approx(1.0)
    # All go to one expert that half of the probability is on: 4 * 1 * 0.5.
    half = torch.tensor([[0.5, 0.25, 0.125, 0.125]]).log().expand(4, -1)
    assert balance_loss(half, torch.zeros(4, 1, dtype=torch.long)).item() == pytest.approx(2.0)


@pytest.mark.usefixtures("training_kernels")
def test_the_mtp_input_is_fused_stream_by_stream(model: TinyNext, tokens: Tensor) -> None:
    """Against the definition written out: one norm over all four streams, one projection for each."""
    mtp = model.mtp
    seen: list[Tensor] = []
    hook = mtp.layers[0].attn_hyper_connection.register_forward_pre_hook(
        lambda _, inputs: seen.append(inputs[0])
    )
    with torch.no_grad():
        streams = model.features(tokens[:, :64])
        embedded = model.embed(tokens[:, 1:65])
        mtp(embedded, streams, lambda x: torch.zeros_like(x))
    hook.remove()

    def norm(x: Tensor, weight: Tensor) -> Tensor:
        return x / (x.pow(2).mean() + 1e-6).sqrt() * (1 + weight)

    with torch.no_grad():
        for row, t in ((0, 0), (1, 63)):
            whole = norm(streams[row, t], mtp.pre_fc_norm_hidden.weight)
            token = mtp.fc_embedding.weight @ norm(embedded[row, t], mtp.pre_fc_norm_embedding.weight)
            wanted = [token + mtp.fc_hidden.weight @ whole[128 * s : 128 * (s + 1)] for s in range(4)]
            torch.testing.assert_close(seen[0][row, t], torch.cat(wanted), rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("training_kernels")
def test_every_draft_step_sees_what_decoding_would(model: TinyNext) -> None:
    tokens = torch.randint(0, 4000, (1, 68), generator=torch.Generator().manual_seed(6))
    with torch.no_grad():
        _, *drafts = model(tokens[:, :67])
        states = model.features(tokens[:, :64])
        embedded = model.embed(tokens)
        for last in (0, 7, 63):
            inputs, features = embedded[:, 1 : last + 2], states[:, : last + 1]
            for step, together in enumerate(drafts):
                rotary = model.rotary(features, 0, last + 1 + step)
                out, streams = model.draft_step(inputs, features, rotary, None, None, None)
                torch.testing.assert_close(model.head(out[:, -1]), together[:, last], rtol=1e-4, atol=1e-4)
                inputs = torch.cat([inputs, embedded[:, last + 2 + step, None]], 1)
                features = torch.cat([features, streams[:, -1:]], 1)


@pytest.mark.usefixtures("training_kernels")
def test_losses_name_all_outputs_and_the_balance(model: TinyNext) -> None:
    window = torch.randint(0, 4000, (1, 68), generator=torch.Generator().manual_seed(7))
    with torch.no_grad():
        losses = model.losses(window)
        record = Pass()
        model(window[:, :-1], record)
    assert list(losses) == ["main", "mtp1", "mtp2", "mtp3", "balance"]
    assert len(record.router) == 6 + 3  # every layer, and the MTP layer in each of its steps
    each = [balance_loss(*row).item() for row in record.router]
    assert losses["balance"].item() == pytest.approx(sum(each) / 9, rel=1e-5)


def test_the_written_checkpoint_is_what_transformers_loads(
    model: TinyNext, tokens: Tensor, tmp_path: Path
) -> None:
    shards = write_checkpoint(model, tmp_path)
    assert all(shard.stat().st_size < 4_000_000 for shard in shards)
    write_json(tmp_path / "config.json", model_config())
    loaded, info = Qwen4ExpForConditionalGeneration.from_pretrained(
        tmp_path, dtype=torch.float32, output_loading_info=True
    )
    assert not info["missing_keys"] | info["mismatched_keys"]
    tensors: dict[str, Tensor] = {}
    for shard in shards:
        tensors |= load_file(shard)
    assert {tensor.dtype for name, tensor in tensors.items() if "A_log" not in name} == {
        torch.bfloat16,
        torch.int64,
    }
    again = TinyNext().eval()
    load_tensors(again, tensors)
    with torch.no_grad():
        inputs = tokens[:, :64]
        theirs = loaded.eval()(input_ids=inputs).logits
        torch.testing.assert_close(again.base(input_ids=inputs).logits, theirs)
    mtp = {name: value for name, value in tensors.items() if name.startswith("mtp.")}
    for name, value in again.mtp.state_dict().items():
        assert torch.equal(mtp[f"mtp.{name}"].float(), value)


@pytest.fixture(scope="module")
def stream() -> TokenStream:
    """A text that repeats itself at a distance, so that attention has something to find."""
    made = np.random.default_rng(8)
    parts = [made.integers(0, 4000, 24) for _ in range(6)]
    ids = np.concatenate([parts[index] for index in made.integers(0, 6, 80)]).astype(np.uint16)
    return TokenStream(ids, len(ids) * 3)


@pytest.mark.usefixtures("training_kernels")
def test_only_the_indexers_learn_in_their_stage(stream: TokenStream) -> None:
    model = stirred(9)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    told = train_indexer(model, stream.tokens, 20, 128, 1, CPU)
    changed = {name for name, value in model.state_dict().items() if not torch.equal(value, before[name])}
    assert changed == {name for name in before if "indexer." in name}
    assert told["divergence_last"] < told["divergence_first"]
    assert model.sparse is False


@pytest.mark.usefixtures("training_kernels")
def test_measures_of_routing_ple_and_selection(model: TinyNext, stream: TokenStream) -> None:
    held_out = {"code": TokenStream(stream.tokens[:400], 1200)}
    found = measure(model, held_out, 64, 2, CPU)
    # By hand: the choices of each window of 64 tokens and the four after it; the MTP layer's row has three steps.
    counts = [[0] * 8 for _ in range(7)]
    ids = torch.from_numpy(stream.tokens[:400].astype("int64"))
    for start in range(0, 6 * 64, 64):
        window = torch.cat([ids, ids.new_zeros(68)])[start : start + 67][None]
        record = Pass()
        with torch.no_grad():
            model(window, record)
        for layer, (_, chosen) in zip([0, 1, 2, 3, 4, 5, 6, 6, 6], record.router, strict=True):
            for expert in chosen.flatten().tolist():
                counts[layer][expert] += 1
    assert [sum(row) for row in counts] == [6 * 64 * 2] * 6 + [6 * 64 * 2 * 3]
    wanted = [[count * 8 / sum(row) for count in row] for row in counts]
    assert found["router_load"] == [pytest.approx(row) for row in wanted]
    assert (found["router_load_min"], found["router_load_max"]) == (
        pytest.approx(min(map(min, wanted))),
        pytest.approx(max(map(max, wanted))),
    )
    ple = found["ple_ablation"]
    assert ple["without"] != ple["with"]
    # 128 tokens are within the budget: nothing is left out, so nothing may change.
    assert found["sparse_attention"]["window"] == 128
    assert found["sparse_attention"]["cost"] == pytest.approx(0.0, abs=1e-6)


def test_ple_comes_back_after_an_ablation(model: TinyNext) -> None:
    layers = [layer.ple for layer in model.text.layers]

    def ablated() -> Iterator[bool]:
        with without_ple(model):
            yield model.text.layers[1].ple is layers[1]

    assert list(ablated()) == [False]
    assert [layer.ple for layer in model.text.layers] == layers


@pytest.mark.usefixtures("training_kernels")
def test_a_small_run_from_data_to_checkpoint(
    own_streams: dict[str, TokenStream], shipped: Path, tmp_path: Path
) -> None:
    pytest.importorskip("matplotlib", reason="the loss curve's picture needs the training extra")
    folder = tmp_path / "data"
    (folder / "tokenizer").mkdir(parents=True)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(shipped / name, folder / "tokenizer" / name)
    train = TokenStream(np.concatenate([s.tokens for s in own_streams.values()]), 1)
    save_streams(folder / "train.npz", {"train": train})
    save_streams(folder / "held_out.npz", own_streams)
    write_json(folder / "baselines.json", baselines(train, own_streams))
    manifest = json.loads((shipped / "data_manifest.json").read_text())
    write_json(folder / "manifest.json", {**manifest, "name": "tiny-next"})

    out = tmp_path / "out"
    options = ["--steps", "2", "--batch", "2", "--length", "64", "--evaluated", "300", "--seed", "3"]
    result = CliRunner().invoke(app, ["train", str(folder), "--out", str(out), *options])
    assert result.exit_code == 0, result.output
    report = install(folder, out, tmp_path / "checkpoint")
    assert report == check_checkpoint(tmp_path / "checkpoint")
    assert report.architecture == "Qwen4ExpForConditionalGeneration"
    results = json.loads((out / "results.json").read_text())
    assert results["parameters"] == report.parameters
    assert results["indexer"]["steps"] == 2
    card = (tmp_path / "checkpoint" / "CARD.md").read_text(encoding="utf-8")
    assert card.startswith("# tiny-next\n")
    assert f"{results['held_out']['model']['router_load_max']:.2f}" in card
    assert "{" not in card
