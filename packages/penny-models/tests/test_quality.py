"""The shipped weights, run by transformers on the shipped held-out sample, are as good as their card says."""

import copy
import json
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor, nn
from transformers import AutoTokenizer, Qwen3_5ForConditionalGeneration
from transformers.models.qwen3_5 import modeling_qwen3_5
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5DecoderLayer, Qwen3_5RMSNorm

from penny_models import tiny
from penny_models.training.evaluate import evaluate
from penny_models.training.model import TinyModel, use_training_kernels
from penny_models.training.run import load_tensors
from penny_models.training.shards import TokenStream

KINDS = ("code", "prose", "chat")


@dataclass(frozen=True)
class Measured:
    """One kind of text: nats of every token but the first, and hits of the first MTP step."""

    text_bytes: int
    nats: float
    trigram_nats: float
    positions: int
    accurate: int
    agreeing: int

    @property
    def bits_per_byte(self) -> float:
        return self.nats / math.log(2) / self.text_bytes


class NextTokenPredictor(nn.Module):
    """The NEXTN layer on transformers' decoder layer: norm both inputs, join, project, layer, norm."""

    def __init__(self, config: Any, weights: dict[str, Tensor]) -> None:
        super().__init__()
        config = copy.deepcopy(config)
        config.layer_types = ["full_attention"]
        size = config.hidden_size
        self.fc = nn.Linear(2 * size, size, bias=False)
        self.pre_fc_norm_embedding = Qwen3_5RMSNorm(size, config.rms_norm_eps)
        self.pre_fc_norm_hidden = Qwen3_5RMSNorm(size, config.rms_norm_eps)
        self.layers = nn.ModuleList([Qwen3_5DecoderLayer(config, 0)])
        self.norm = Qwen3_5RMSNorm(size, config.rms_norm_eps)
        self.load_state_dict({name: weight.float() for name, weight in weights.items()})

    def forward(self, embedded: Tensor, hidden: Tensor, rotary: tuple[Tensor, Tensor]) -> Tensor:
        both = torch.cat([self.pre_fc_norm_embedding(embedded), self.pre_fc_norm_hidden(hidden)], -1)
        out = self.layers[0](self.fc(both), position_embeddings=rotary, attention_mask=None)
        return self.norm(out)


@pytest.fixture(scope="module")
def model() -> Any:
    return Qwen3_5ForConditionalGeneration.from_pretrained(
        tiny.path("tiny-27b"), dtype=torch.float32, attn_implementation="sdpa"
    ).eval()


@pytest.fixture(scope="module")
def tensors() -> dict[str, Tensor]:
    found: dict[str, Tensor] = {}
    for shard in tiny.path("tiny-27b").glob("*.safetensors"):
        found |= load_file(shard)
    return found


@pytest.fixture(scope="module")
def sample() -> Any:
    return json.loads((tiny.path("tiny-27b") / "held_out_sample.json").read_text(encoding="utf-8"))


@pytest.fixture(scope="module")
def token_ids(sample: Any) -> dict[str, Tensor]:
    """The sample's token ids [1, n] by kind."""
    tokenizer = AutoTokenizer.from_pretrained(tiny.path("tiny-27b"))
    ids = {kind: tokenizer(sample[kind]["text"], return_tensors="pt")["input_ids"] for kind in KINDS}
    assert {kind: ids[kind].shape[1] for kind in KINDS} == {kind: sample[kind]["tokens"] for kind in KINDS}
    return ids


@pytest.fixture(scope="module")
def measured(
    model: Any, tensors: dict[str, Tensor], sample: Any, token_ids: dict[str, Tensor]
) -> dict[str, Measured]:
    text = model.model.language_model
    weights = {name.removeprefix("mtp."): t for name, t in tensors.items() if name.startswith("mtp.")}
    mtp = NextTokenPredictor(text.config, weights)

    rows: dict[str, Measured] = {}
    for kind, ids in token_ids.items():
        with torch.no_grad():
            hidden = text(input_ids=ids).last_hidden_state
            logits = model.lm_head(hidden)
            nats = nn.functional.cross_entropy(logits[0, :-1], ids[0, 1:], reduction="sum")
            positions = torch.arange(ids.shape[1] - 1).expand(3, 1, -1)
            rotary = text.rotary_emb(hidden, positions)
            drafts = model.lm_head(mtp(text.embed_tokens(ids[:, 1:]), hidden[:, :-1], rotary)).argmax(-1)
        # From token t+1 and the state after token t, the draft is for token t+2.
        drafts = drafts[0, :-1]
        rows[kind] = Measured(
            text_bytes=len(sample[kind]["text"].encode()),
            nats=float(nats),
            trigram_nats=sample[kind]["trigram_nats"],
            positions=len(drafts),
            accurate=int((drafts == ids[0, 2:]).sum()),
            agreeing=int((drafts == logits.argmax(-1)[0, 1:-1]).sum()),
        )
    return rows


@pytest.fixture(scope="module")
def published() -> Any:
    return json.loads((tiny.path("tiny-27b") / "results.json").read_text())["held_out"]


@pytest.mark.parametrize("kind", KINDS)
def test_bits_per_byte_beat_the_trigram_by_as_much_as_published(
    kind: str, measured: dict[str, Measured], published: Any
) -> None:
    row = measured[kind]
    share_of_trigram = row.nats / row.trigram_nats
    assert share_of_trigram < 0.75
    # The share varies less than the bits: hard text is hard for both. 2,048 tokens leave about a fifth.
    expected = published["model"]["bits_per_byte"][kind] / published["trigram"][kind]
    assert share_of_trigram == pytest.approx(expected, rel=0.25)
    assert row.bits_per_byte == pytest.approx(published["model"]["bits_per_byte"][kind], rel=0.3)


def test_the_published_method_gives_the_same_numbers_on_the_sample(
    tensors: dict[str, Tensor],
    sample: Any,
    token_ids: dict[str, Tensor],
    measured: dict[str, Measured],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The evaluation behind the card, with the kernels of training, against transformers' own pass."""
    kernel = modeling_qwen3_5.torch_chunk_gated_delta_rule
    monkeypatch.setattr(modeling_qwen3_5, "torch_chunk_gated_delta_rule", kernel)  # put back afterwards
    use_training_kernels()
    model = TinyModel()
    load_tensors(model, tensors)
    for kind, row in measured.items():
        stream = TokenStream(token_ids[kind][0].numpy().astype(np.uint16), row.text_bytes)
        found = evaluate(model, {kind: stream}, 2048, 1, torch.device("cpu"))
        assert found["bits_per_byte"][kind] == pytest.approx(row.bits_per_byte, rel=1e-4)
        # Its window leaves out one position more.
        assert found["mtp_top1_accuracy"]["step1"] == pytest.approx(row.accurate / row.positions, abs=2e-3)
        agreement = found["mtp_agreement_with_model"]["step1"]
        assert agreement == pytest.approx(row.agreeing / row.positions, abs=2e-3)


def test_the_nextn_layer_drafts_as_well_as_published(measured: dict[str, Measured], published: Any) -> None:
    tokens = published["model"]["tokens"]
    total = sum(tokens.values())
    accuracy = sum(row.accurate / row.positions * tokens[kind] / total for kind, row in measured.items())
    agreement = sum(row.agreeing / row.positions * tokens[kind] / total for kind, row in measured.items())
    assert accuracy > 0.85 * published["model"]["mtp_top1_accuracy"]["step1"]
    assert agreement > 0.85 * published["model"]["mtp_agreement_with_model"]["step1"]


def test_it_answers_in_chat_form(model: Any) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny.path("tiny-27b"))
    inputs = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Who are you?"}],
        add_generation_prompt=True,
        enable_thinking=False,
        return_tensors="pt",
        return_dict=True,
    )
    answer = model.generate(**inputs, do_sample=False, max_new_tokens=64)[0, inputs["input_ids"].shape[1] :]
    text = tokenizer.decode(answer)
    assert "tiny-27b" in text
    assert text.endswith("<|im_end|>")
