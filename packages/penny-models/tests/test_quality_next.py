"""What the weights of ``tiny-next`` are worth, by transformers' own Flash-Next on text that they were not trained on.

The published numbers are of held-out text that does not travel; here each of them is a bound on this project's text.
"""

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from transformers import AutoTokenizer, Qwen4ExpForConditionalGeneration
from transformers.models.qwen4_exp import modeling_qwen4_exp as family

from penny_models import tiny
from penny_models.training.shards import TokenStream

BUDGET = 2048
"""Tokens that the sparse-attention index selects at most."""


@pytest.fixture(scope="module")
def model() -> Any:
    torch.manual_seed(0)
    return Qwen4ExpForConditionalGeneration.from_pretrained(
        tiny.path("tiny-next"), dtype=torch.float32, attn_implementation="sdpa"
    ).eval()


@pytest.fixture(scope="module")
def published() -> Any:
    return json.loads((tiny.path("tiny-next") / "results.json").read_text())["held_out"]


def nats_of(model: Any, ids: Tensor) -> Tensor:
    """Nats of every token but the first of one text [n]."""
    with torch.inference_mode():
        logits = model(input_ids=ids[None].long()).logits[0, :-1]
    return nn.functional.cross_entropy(logits, ids[1:].long(), reduction="none")


@pytest.fixture(scope="module")
def tokens(own_streams: dict[str, TokenStream]) -> dict[str, Tensor]:
    return {kind: torch.from_numpy(s.tokens.astype("int64")) for kind, s in own_streams.items()}


@pytest.fixture(scope="module")
def chosen(model: Any, tokens: dict[str, Tensor]) -> tuple[dict[str, float], list[Tensor]]:
    """Bits per byte are made of these nats by kind; the second are the experts that every layer chose, by layer."""
    counts: list[Tensor] = []

    def count(router: Any, _: Any, out: tuple[Tensor, ...]) -> None:
        index = routers.index(router)
        while len(counts) <= index:
            counts.append(torch.zeros(router.num_experts))
        counts[index] += torch.bincount(out[2].flatten(), minlength=router.num_experts)

    routers = [module for module in model.modules() if isinstance(module, family.Qwen4ExpTextTopKRouter)]
    hooks = [router.register_forward_hook(count) for router in routers]
    nats = {kind: float(nats_of(model, ids).sum()) for kind, ids in tokens.items()}
    for hook in hooks:
        hook.remove()
    return nats, counts


@pytest.mark.parametrize(("kind", "share"), [("code", 0.8), ("prose", 1.0), ("chat", 0.8)])
def test_bits_per_byte_are_under_the_published_trigram(
    kind: str, share: float, chosen: Any, own_streams: dict[str, TokenStream], published: Any
) -> None:
    bits = chosen[0][kind] / math.log(2) / own_streams[kind].text_bytes
    assert bits < share * published["trigram"][kind]


def test_every_expert_is_used_and_none_too_much(chosen: Any, published: Any) -> None:
    counts = chosen[1]
    assert len(counts) == 6
    for layer in counts:
        load = layer / layer.sum() * len(layer)
        assert len(load) == 8
        assert 1 / 3 < load.min() <= load.max() < 3
    assert 1 / 3 < published["model"]["router_load_min"] < published["model"]["router_load_max"] < 3


@contextmanager
def silent_ple(model: Any) -> Iterator[None]:
    """The PLE layer's value projection at zero: gate and convolution have nothing to pass on."""
    projections = [module for name, module in model.named_modules() if name.endswith("ple.value_proj")]
    assert len(projections) == 1
    kept = projections[0].weight.detach().clone()
    projections[0].weight.data.zero_()
    yield
    projections[0].weight.data.copy_(kept)


def test_without_the_ngram_tables_text_costs_more(
    model: Any, chosen: Any, tokens: dict[str, Tensor], published: Any
) -> None:
    with silent_ple(model):
        without = sum(float(nats_of(model, ids).sum()) for ids in tokens.values())
    assert without > 1.01 * sum(chosen[0].values())
    assert published["model"]["ple_ablation"]["cost"] >= 0.01


def test_sparse_attention_is_worth_full_attention(
    model: Any, tokens: dict[str, Tensor], published: Any
) -> None:
    """All kinds in one text of more than the budget; what differs comes after it."""
    text = torch.cat([tokens["code"], tokens["chat"], tokens["prose"]])[:3000]
    assert len(text) > BUDGET + 500
    sparse = nats_of(model, text)
    indexers = [module for module in model.modules() if hasattr(module, "block_topk")]
    assert [(index.token_budget, index.block_topk) for index in indexers] == [(BUDGET, 512)] * 2
    for index in indexers:
        index.token_budget, index.block_topk = 2 * BUDGET, 1024
    full = nats_of(model, text)
    for index in indexers:
        index.token_budget, index.block_topk = BUDGET, 512
    torch.testing.assert_close(sparse[: BUDGET - 1], full[: BUDGET - 1], rtol=1e-3, atol=1e-3)
    assert not torch.equal(sparse[BUDGET + 4 :], full[BUDGET + 4 :])
    assert abs(float(sparse.sum() / full.sum()) - 1) < 0.01
    assert abs(published["model"]["sparse_attention"]["cost"]) < 0.01


def test_it_answers_in_chat_form(model: Any) -> None:
    tokenizer = AutoTokenizer.from_pretrained(tiny.path("tiny-next"))
    inputs = tokenizer.apply_chat_template(
        [{"role": "user", "content": "Who are you?"}],
        add_generation_prompt=True,
        enable_thinking=False,
        return_tensors="pt",
        return_dict=True,
    )
    answer = model.generate(**inputs, do_sample=False, max_new_tokens=64)[0, inputs["input_ids"].shape[1] :]
    text = tokenizer.decode(answer)
    assert "tiny-next" in text
    assert text.endswith("<|im_end|>")
