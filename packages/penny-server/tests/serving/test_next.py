"""Flash-Next on the CPU: greedy output equals transformers' own on the same weights, token by token, in float32.

Three servers, one after the other: without drafts, with NEXTN, and with NEXTN over a draft vocabulary (FR-Spec). One
transformers reference for all of them. Stock keeps parts of the family in bfloat16; the feature ``next-float32``, which
is for these tests only, lifts that.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import cache

import pytest
import torch
from conftest import Server, start, stop
from prompts import ALL, LONG
from test_greedy import expected

from penny_models import tiny
from penny_server.profiles import load

CHECKPOINT = tiny.path("tiny-next")
PROFILE = """\
name = "{name}-float32"
extends = "{name}"
summary = "{name} as the tests compare it"
features = {features}
"""
SERVERS = {
    "plain": ("tiny-next", ("--set", "speculative_algorithm=")),
    "nextn": ("tiny-next", ()),
    "frspec": ("tiny-next-frspec", ()),
}
LEAST = {"nextn": 3.3, "frspec": 2.6}
"""Tokens of each verify over the prompts."""
NEW_TOKENS = 128
SPARSE_TOKENS = 3000
"""More than the budget of the sparse-attention index, 2,048 tokens, and than a prefill chunk."""
TOLERANCE = 2e-4
PENALTIES = [
    {"presence_penalty": 0.6},
    {"frequency_penalty": 0.4},
    {"repetition_penalty": 1.3},
    {"presence_penalty": 0.5, "frequency_penalty": 0.3, "repetition_penalty": 1.1},
]


@pytest.fixture(scope="module", params=list(SERVERS))
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def server(mode: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    root = tmp_path_factory.mktemp(mode)
    name, options = SERVERS[mode]
    features = [*load(name).features, "next-float32"]
    (root / "float32.toml").write_text(PROFILE.format(name=name, features=features))
    options = ("--device", "cpu", "--set", "dtype=float32", *options)
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


class Penalised:
    """SGLang's documented penalties over what was generated, written once more: for transformers' `generate`."""

    def __init__(
        self,
        prompt: int,
        presence_penalty: float = 0.0,
        frequency_penalty: float = 0.0,
        repetition_penalty: float = 1.0,
    ) -> None:
        self.prompt = prompt
        self.presence, self.frequency, self.repetition = (
            presence_penalty,
            frequency_penalty,
            repetition_penalty,
        )

    def __call__(self, ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        counts = torch.bincount(ids[0, self.prompt :], minlength=scores.shape[1]).float()
        scores = scores - self.frequency * counts - self.presence * (counts > 0)
        scaled = torch.where(scores > 0, scores / self.repetition, scores * self.repetition)
        return torch.where(counts > 0, scaled, scores)


Expect = Callable[..., list[int]]


@pytest.fixture(scope="module")
def expect(reference) -> Expect:
    """What transformers continues tokens with; each question is worked out once for all servers."""

    @cache
    def answer(ids: tuple[int, ...], new_tokens: int, penalties: tuple[tuple[str, float], ...]) -> list[int]:
        processors = [Penalised(len(ids), **dict(penalties))] if penalties else None
        return expected(reference, list(ids), new_tokens, logits_processor=processors)

    def of(ids: list[int], new_tokens: int = NEW_TOKENS, **penalties: float) -> list[int]:
        return answer(tuple(ids), new_tokens, tuple(sorted(penalties.items())))

    return of


@pytest.fixture(scope="module")
def prompts(tokenizer, long_prompt) -> list[list[int]]:
    """Twenty, and a long one where attention is sparse."""
    return [*(tokenizer(text)["input_ids"] for text in ALL), long_prompt]


def cached(ids: list[int]) -> int:
    """Tokens in whole pages of the prefix cache; at least one token is always computed."""
    return 64 * ((len(ids) - 1) // 64)


def log_probabilities(model, ids: list[int]) -> torch.Tensor:
    """[tokens, vocabulary], of the token after each."""
    with torch.inference_mode():
        return torch.log_softmax(model(torch.tensor([ids])).logits[0].float(), -1)


def test_tokens_equal_transformers_one_by_one_and_from_the_cache(server, mode, prompts, expect) -> None:
    verifies = 0
    for ids in prompts:
        first = server.generate(ids, NEW_TOKENS)
        assert first["output_ids"] == expect(ids)
        if cached(ids):
            again = server.generate(ids, NEW_TOKENS)
            assert again["output_ids"] == expect(ids)
            assert again["meta_info"]["cached_tokens"] == cached(ids)
        verifies += first["meta_info"].get("spec_verify_ct", 0)
    if mode == "plain":
        assert verifies == 0
    else:
        assert (NEW_TOKENS - 1) * len(prompts) / verifies >= LEAST[mode]


def test_four_streams_at_once_give_the_same(server, prompts, expect) -> None:
    """Dense and sparse requests in one batch."""
    server.post("/flush_cache", {})
    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(lambda ids: server.generate(ids, NEW_TOKENS)["output_ids"], prompts))
    assert found == [expect(ids) for ids in prompts]


def test_a_longer_prompt_continues_a_cached_one(server, tokenizer, expect) -> None:
    ids = tokenizer(LONG[1] + "# a tail that no other test sends\n")["input_ids"]
    first = server.generate(ids, NEW_TOKENS)
    longer = ids + first["output_ids"] + tokenizer("\n\nclass Next:\n")["input_ids"]
    second = server.generate(longer, NEW_TOKENS)
    assert second["meta_info"]["cached_tokens"] >= cached(ids) > 0
    assert first["output_ids"] == expect(ids)
    assert second["output_ids"] == expect(longer)


def test_penalties_are_those_of_the_whole_answer(server, mode, prompts, expect) -> None:
    """Also where several tokens of an answer are verified at once."""
    ids = prompts[8]
    for asked in PENALTIES:
        found = server.generate(ids, 64, **asked)
        assert found["output_ids"] == expect(ids, 64, **asked), asked
        assert found["output_ids"] != expect(ids)[:64], asked
        if mode != "plain":
            assert found["meta_info"]["spec_verify_ct"] < 63  # it did draft


@pytest.mark.parametrize("mode", ["nextn", "frspec"], indirect=True)
def test_what_a_map_lacks_is_never_drafted(server, mode, tokenizer, expect) -> None:
    """The answer is one word over and over, which the map lacks: NEXTN drafts it well, and with the map not once."""
    ids = tokenizer(" function" * 40)["input_ids"]
    kept = torch.load(tiny.token_map("tiny-next-2k"), weights_only=True).tolist()
    assert not set(expect(ids, 64)) & set(kept)
    found = server.generate(ids, 64)
    assert found["output_ids"] == expect(ids, 64)
    if mode == "frspec":
        assert found["meta_info"]["spec_correct_drafts_histogram"] == [63]
    else:
        assert found["meta_info"]["spec_verify_ct"] < 32


@pytest.mark.parametrize("mode", ["plain"], indirect=True)
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
