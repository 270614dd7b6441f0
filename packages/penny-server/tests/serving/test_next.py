"""Flash-Next on the CPU: greedy output equals transformers' own on the same weights, token by token, in float32.

Stock keeps parts of the family in bfloat16; the feature ``next-float32``, which is for these tests only, lifts that.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from conftest import Server, start, stop
from prompts import ALL, LONG
from test_greedy import NEW_TOKENS, expected

from penny_models import tiny
from penny_server.profiles import load

CHECKPOINT = tiny.path("tiny-next")
PROFILE = """\
name = "next-float32"
extends = "tiny-next"
summary = "tiny-next as the tests compare it"
features = {features}
"""
SPARSE_TOKENS = 3000
"""More than the budget of the sparse-attention index, 2,048 tokens, and than a prefill chunk."""
TOLERANCE = 2e-4


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp("next")
    features = [*load("tiny-next").features, "next-float32"]
    (root / "float32.toml").write_text(PROFILE.format(features=features))
    options = ("--device", "cpu", "--set", "dtype=float32")
    running = start(root, *options, profile=str(root / "float32.toml"))
    yield running
    assert stop(running) == 0


@pytest.fixture(scope="module")
def tokenizer():
    from transformers import AutoTokenizer

    return AutoTokenizer.from_pretrained(CHECKPOINT)


@pytest.fixture(scope="module")
def reference():
    """The independent implementation: transformers' own model on the same weights in float32."""
    from transformers import Qwen4ExpForConditionalGeneration

    torch.set_num_threads(max(1, (os.cpu_count() or 2) - 1))
    model = Qwen4ExpForConditionalGeneration.from_pretrained(CHECKPOINT, dtype=torch.float32).eval()
    model.generation_config.eos_token_id = None  # every answer goes on to the last token asked for
    return model


@pytest.fixture(scope="module")
def long_prompt(tokenizer) -> list[int]:
    text = "".join(f"row {i}: {i * i % 997}, {i * 7 % 89}\n" for i in range(700))
    return tokenizer(text)["input_ids"][:SPARSE_TOKENS]


def log_probabilities(model, ids: list[int]) -> torch.Tensor:
    """[tokens, vocabulary], of the token after each."""
    with torch.inference_mode():
        return torch.log_softmax(model(torch.tensor([ids])).logits[0].float(), -1)


@pytest.mark.parametrize("index", range(20))
def test_tokens_equal_transformers(server, tokenizer, reference, index: int) -> None:
    ids = tokenizer(ALL[index])["input_ids"]
    assert server.generate(ids, NEW_TOKENS)["output_ids"] == expected(reference, ids)


def test_repeated_prefix_is_cached_and_changes_nothing(server, tokenizer, reference) -> None:
    ids = tokenizer(LONG[1] + "# a tail that no other test sends\n")["input_ids"]
    first = server.generate(ids, NEW_TOKENS)
    second = server.generate(ids, NEW_TOKENS)
    longer = ids + first["output_ids"] + tokenizer("\n\nclass Next:\n")["input_ids"]
    third = server.generate(longer, NEW_TOKENS)
    assert second["meta_info"]["cached_tokens"] == 64 * ((len(ids) - 1) // 64)
    assert third["meta_info"]["cached_tokens"] >= second["meta_info"]["cached_tokens"]
    assert second["output_ids"] == first["output_ids"] == expected(reference, ids)
    assert third["output_ids"] == expected(reference, longer)


def test_sparse_selection_equals_transformers_cached_or_not(server, reference, long_prompt) -> None:
    budget = reference.config.text_config.indexer_budget
    assert len(long_prompt) == SPARSE_TOKENS > budget
    first = server.generate(long_prompt, NEW_TOKENS)
    second = server.generate(long_prompt, NEW_TOKENS)
    assert first["meta_info"]["cached_tokens"] == 0
    assert second["meta_info"]["cached_tokens"] == 64 * ((SPARSE_TOKENS - 1) // 64) > budget
    assert second["output_ids"] == first["output_ids"] == expected(reference, long_prompt)


def test_sparse_selection_is_transformers_own_and_not_all(server, reference, long_prompt) -> None:
    """Log probabilities of the prompt's tokens: as with transformers' selection, and not as without one."""
    body = {
        "input_ids": long_prompt,
        "sampling_params": {"temperature": 0, "max_new_tokens": 1},
        "return_logprob": True,
        "logprob_start_len": 0,
    }
    meta = server.post("/generate", body).json()["meta_info"]
    found = torch.tensor([logprob for logprob, _, _ in meta["input_token_logprobs"][1:]])
    following = torch.tensor(long_prompt[1:]).unsqueeze(1)
    selected = log_probabilities(reference, long_prompt)[:-1].gather(1, following).squeeze(1)
    assert (found - selected).abs().max() < TOLERANCE

    indexes = [module for module in reference.modules() if hasattr(module, "block_topk")]
    assert [(index.token_budget, index.block_topk) for index in indexes] == [(2048, 512)] * 2
    for index in indexes:
        index.token_budget, index.block_topk = 4096, 1024
    everything = log_probabilities(reference, long_prompt)[:-1].gather(1, following).squeeze(1)
    for index in indexes:
        index.token_budget, index.block_topk = 2048, 512
    assert (found - everything)[:2048].abs().max() < TOLERANCE
    assert (found - everything)[2051:].abs().max() > 10 * TOLERANCE


def test_streams_at_once_give_what_each_gives_alone(server, tokenizer, long_prompt) -> None:
    """Dense and sparse requests in one batch."""
    prompts = [tokenizer(text)["input_ids"] for text in ALL[:2] + ALL[8:10] + LONG[2:4]] + [long_prompt]
    alone = [server.generate(ids, NEW_TOKENS)["output_ids"] for ids in prompts]
    server.post("/flush_cache", {})
    with ThreadPoolExecutor(len(prompts)) as pool:
        together = list(pool.map(lambda ids: server.generate(ids, NEW_TOKENS)["output_ids"], prompts))
    assert together == alone
