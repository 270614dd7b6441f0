"""A DFlash draft before the start and where it is loaded: each wrong one is refused with a sentence."""

from __future__ import annotations

import json
import shutil
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from penny_models import tiny
from penny_models.checkpoint.expected_draft import draft_tensors
from penny_server.cli.run import run
from penny_server.sglang import dflash_startup, draft_names
from penny_server.sglang.seams import draft_complete

PARAMETERS = (
    "fc.weight",
    "layers.0.self_attn.qkv_proj.weight",
    "layers.0.self_attn.o_proj.weight",
    "layers.0.mlp.gate_up_proj.weight",
    "candidate_selector.predecessor_codebook",
)
TENSORS = (
    "fc.weight",
    *(f"layers.0.self_attn.{name}_proj.weight" for name in "qkvo"),
    *(f"layers.0.mlp.{name}_proj.weight" for name in ("gate", "up")),
    "candidate_selector.predecessor_codebook",
)


@pytest.fixture
def draft(tmp_path: Path) -> Path:
    """A copy in one shard that tests may damage."""
    folder = tmp_path / "draft"
    folder.mkdir()
    shutil.copyfile(tiny.path("tiny-27b-dflash2") / "config.json", folder / "config.json")
    tensors = {}
    for shard in tiny.path("tiny-27b-dflash2").glob("*.safetensors"):
        tensors |= load_file(shard)
    save_file(tensors, folder / "model.safetensors")
    return folder


def edit_config(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    config = json.loads((folder / "config.json").read_text())
    change(config)
    (folder / "config.json").write_text(json.dumps(config))


def edit_tensors(folder: Path, change: Callable[[dict[str, Any]], Any]) -> None:
    tensors = load_file(folder / "model.safetensors")
    change(tensors)
    save_file(tensors, folder / "model.safetensors")


def free_port() -> str:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return str(probe.getsockname()[1])


def refused(draft: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str], *settings: str) -> str:
    """What `penny serve` says, with exit code 4 (checkpoint), before it makes a run folder."""
    runs = tmp_path / "runs"
    options = ["--device", "cpu", "--port", free_port(), "--draft", str(draft), "--log-dir", str(runs)]
    code = run(["serve", "tiny-27b-dflash2", *options, *(f"--set={setting}" for setting in settings)])
    said = " ".join(capsys.readouterr().err.split())
    assert code == 4, said
    assert not runs.exists()
    assert "Traceback" not in said
    return said


def test_another_hidden_size(draft, tmp_path, capsys) -> None:
    """Whole in itself, and made for another model."""
    edit_config(draft, lambda config: config.update(hidden_size=256))
    shapes = draft_tensors(json.loads((draft / "config.json").read_text()), draft)
    save_file({name: torch.zeros(shape) for name, shape in shapes.items()}, draft / "model.safetensors")
    assert "reads hidden states of 256 values, and the model has 128" in refused(draft, tmp_path, capsys)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda c: c["dflash_config"].update(block_size=16), "was trained on blocks of 16, and"),
        (
            lambda c: c["dflash_config"].update(target_layer_ids=[1, 3, 5, 8]),
            "reads the model's layer 8, and the last",
        ),
    ],
    ids=["block", "layer"],
)
def test_a_config_for_another_model(draft, tmp_path, capsys, change, sentence: str) -> None:
    edit_config(draft, change)
    assert sentence in refused(draft, tmp_path, capsys)


def test_another_block_than_the_settings(draft, tmp_path, capsys) -> None:
    said = refused(draft, tmp_path, capsys, "speculative_num_draft_tokens=4")
    assert "was trained on blocks of 8, and speculative_num_draft_tokens is 4" in said
    assert "Set speculative_num_draft_tokens to 8" in said


def test_another_vocabulary(draft, tmp_path, capsys) -> None:
    def widen(tensors: dict[str, Any]) -> None:
        for name in ("predecessor", "successor"):
            rows = tensors[f"candidate_selector.{name}_codebook"]
            tensors[f"candidate_selector.{name}_codebook"] = rows.repeat(2, 1)

    edit_tensors(draft, widen)
    edit_config(draft, lambda config: config.update(vocab_size=8192))
    assert "a vocabulary of 8,192 tokens, and the model has 4,096" in refused(draft, tmp_path, capsys)


def test_a_missing_and_an_unknown_tensor(draft, tmp_path, capsys) -> None:
    name = "layers.2.mlp_conv.base_kernel"
    edit_tensors(draft, lambda tensors: tensors.update({"layers.2.conv": tensors.pop(name)}))
    assert f"lacks 1 tensor of the 66 that config.json asks for: {name}" in refused(draft, tmp_path, capsys)
    edit_tensors(draft, lambda tensors: tensors.update({name: tensors["layers.2.conv"].clone()}))
    assert "1 tensor will not be used: layers.2.conv" in refused(draft, tmp_path, capsys)


def test_a_model_is_no_draft(tmp_path, capsys) -> None:
    assert "is no DFlash draft" in refused(tiny.path("tiny-27b"), tmp_path, capsys)


def test_tensors_by_the_modules_parameters() -> None:
    assert draft_names.wanted(PARAMETERS) == set(TENSORS)
    assert draft_names.refusal(PARAMETERS, TENSORS) is None
    assert draft_names.refusal(PARAMETERS, [f"model.{name}" for name in TENSORS]) is None
    more = [*TENSORS[1:], "encoder.fc.weight", "layers.0.self_attn.rotary_emb.inv_freq"]
    assert draft_names.refusal(PARAMETERS, more) is None


def test_part_of_a_stacked_parameter_is_missing() -> None:
    """Stock counts qkv_proj as loaded once it saw one of the three."""
    found = [name for name in TENSORS if "k_proj" not in name]
    message = draft_names.refusal(PARAMETERS, [*found, "layers.0.self_attn.kproj.weight"])
    assert message.startswith(
        "The draft's checkpoint lacks layers.0.self_attn.k_proj.weight and has, under names that nothing reads, "
        "layers.0.self_attn.kproj.weight; "
    )


def test_many_names_are_counted() -> None:
    assert "and 5 more; " in draft_names.refusal(PARAMETERS, [])


class Module:
    """A module that takes what it is given, as stock's does."""

    def named_parameters(self) -> Iterator[tuple[str, None]]:
        return ((name, None) for name in PARAMETERS)


def test_loading_ends_without_a_tensor_and_a_later_update_may_be_partial() -> None:
    def load(model: Module, weights: Any) -> int:
        return len(list(weights))

    module = Module()
    with pytest.raises(draft_complete.IncompleteDraftError, match=r"lacks candidate_selector\.predecessor"):
        draft_complete._complete(load, module, iter((name, None) for name in TENSORS[:-1]))
    assert draft_complete._complete(load, module, iter((name, None) for name in TENSORS)) == 8
    assert draft_complete._complete(load, module, iter([("fc.weight", None)])) == 1


def worker(**changes: Any) -> SimpleNamespace:
    runner = SimpleNamespace(decode_cuda_graph_runner="graphs", eager_runner="eager")
    right = {
        "device": "cuda:0",
        "_draft_sampler": "folded",
        "_fused_kv_helper": "fused",
        "draft_model_runner": runner,
    }
    return SimpleNamespace(**right | changes)


EAGER = SimpleNamespace(decode_cuda_graph_runner="eager", eager_runner="eager")


@pytest.mark.parametrize(
    ("changes", "graphs", "says"),
    [
        ({}, True, None),
        ({"_draft_sampler": None}, True, "slowly: the draft's head is not folded into its graph. The lines"),
        ({"draft_model_runner": EAGER}, True, "slowly: no graph of the draft was captured. The lines"),
        ({"_fused_kv_helper": None}, True, "slowly: the draft's KV is written layer by layer. The lines"),
        (
            {"_draft_sampler": None, "_fused_kv_helper": None},
            True,
            "its graph and the draft's KV is written layer",
        ),
        ({"_draft_sampler": None, "draft_model_runner": EAGER}, False, None),
        ({"_fused_kv_helper": None}, False, "written layer by layer"),
        ({"device": "cpu", "_draft_sampler": None, "_fused_kv_helper": None}, True, None),
    ],
)
def test_a_slow_draft_on_a_gpu(changes: dict, graphs: bool, says: str | None) -> None:
    found = dflash_startup.refusal(worker(**changes), graphs)
    assert (found is None) == (says is None)
    assert says is None or says in found


def test_a_failure_of_fused_writing_is_counted_and_passed_on(monkeypatch, caplog) -> None:
    from penny_server.sglang.seams import dflash2_startup

    failures = dflash_startup.Failures(metrics=False)
    monkeypatch.setattr(dflash2_startup, "the_failures", lambda: failures)

    def fails(worker: Any, *, ctx_hidden: int) -> None:
        raise ValueError("no kernel")

    with pytest.raises(ValueError, match="no kernel"):
        dflash2_startup._count(fails, None, ctx_hidden=1)
    assert failures.number == 1
    assert "fused writing of the draft's KV failed" in caplog.text
    dflash2_startup._count(lambda worker, *, ctx_hidden: None, None, ctx_hidden=1)
    assert failures.number == 1


def test_failures_are_on_the_page_of_metrics() -> None:
    from prometheus_client import REGISTRY

    dflash_startup.Failures(metrics=True).add()
    assert REGISTRY.get_sample_value("penny_spec_fused_kv_failures_total") == 1
