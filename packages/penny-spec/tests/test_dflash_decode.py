"""Decoding with the trained draft of `tiny-27b`: the tokens are those of the target alone."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor

from penny_spec.dflash import Drafter, check_target, mask_token_id
from penny_spec.verify import Penalties, count_tokens, greedy, penalise

tiny = pytest.importorskip("penny_models.tiny")
transformers = pytest.importorskip("transformers")

FUNCTION = "def add(a, b):\n    return a + b\n\n\ndef sub(a, b):\n"
CLASS = "class Node:\n    def __init__(self, left, right):\n        self.left = left\n"
PROSE = "The quick brown fox"
NEW = 64


class Target:
    """`tiny-27b` in transformers, float32. The library runs over the whole text each time: slow and simple."""

    def __init__(self) -> None:
        folder = tiny.path("tiny-27b")
        self.model: Any = transformers.Qwen3_5ForConditionalGeneration.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="sdpa"
        )
        self.model.eval().requires_grad_(False)
        self.tokenizer = transformers.AutoTokenizer.from_pretrained(folder).backend_tokenizer
        self.config = json.loads((folder / "config.json").read_text())
        self.layer_ids: tuple[int, ...] = ()

    def look(self, ids: list[int]) -> tuple[Tensor, Tensor]:
        """Features `(T, K * H)` for the draft and logits `(T, V)`."""
        out = self.model(input_ids=torch.tensor([ids]), output_hidden_states=True, use_cache=False)
        return torch.cat([out.hidden_states[i + 1][0] for i in self.layer_ids], dim=-1), out.logits[0]

    def alone(self, prompt: list[int], **options: Any) -> list[int]:
        made = self.model.generate(
            input_ids=torch.tensor([prompt]),
            max_new_tokens=NEW,
            do_sample=False,
            eos_token_id=None,
            **options,
        )
        return made[0, len(prompt) :].tolist()


@pytest.fixture(scope="module")
def target() -> Iterator[Target]:
    with torch.no_grad():
        yield Target()


@pytest.fixture(scope="module")
def drafter(target: Target) -> Drafter:
    text = target.model.model.language_model
    found = Drafter.load(
        tiny.path("tiny-27b-dflash2"), text.embed_tokens.weight.detach(), target.model.lm_head.weight.detach()
    )
    target.layer_ids = check_target(found.config, target.config, block_size=8)
    assert mask_token_id(found.config, target.tokenizer) == 4089
    return found


def decode(
    target: Target, drafter: Drafter, prompt: list[int], penalties: Penalties | None = None
) -> tuple[list[int], float]:
    """Return `NEW` tokens and the acceptance length: tokens for each pass of the target after the first."""
    vocabulary = drafter.config.vocab_size

    def judged(logits: Tensor, tokens: Tensor, seen: list[int]) -> Tensor:
        if penalties is None:
            return logits.unsqueeze(0)
        counts = count_tokens(torch.tensor([seen]), vocabulary)
        return penalise(logits.unsqueeze(0), tokens, counts, penalties)

    features, logits = target.look(prompt)
    none = torch.zeros(1, 0, dtype=torch.long)
    # transformers counts the prompt as generated, so that is counted here too.
    text = [*prompt, int(judged(logits[-1:], none, prompt).argmax())]
    context = drafter.commit(features)
    rounds = 0
    while len(text) < len(prompt) + NEW:
        tokens = drafter.propose(context, text[-1]).tokens
        start = len(text) - 1
        features, logits = target.look(text + tokens[0].tolist())
        verdict = greedy(tokens, judged(logits[start:], tokens, text))
        count = int(verdict.emitted)
        context = drafter.commit(features[start : start + count], context)
        text += verdict.tokens[0, :count].tolist()
        rounds += 1
    return text[len(prompt) : len(prompt) + NEW], (len(text) - len(prompt) - 1) / rounds


@pytest.mark.parametrize(("prompt", "least"), [(FUNCTION, 4.0), (CLASS, 4.0), (PROSE, 1.5)])
def test_greedy_decoding_is_that_of_the_target(
    target: Target, drafter: Drafter, prompt: str, least: float
) -> None:
    ids = target.tokenizer.encode(prompt).ids
    found, acceptance = decode(target, drafter, ids)
    assert found == target.alone(ids)
    assert acceptance > least


def test_a_repetition_penalty_too(target: Target, drafter: Drafter) -> None:
    ids = target.tokenizer.encode(FUNCTION).ids
    found, acceptance = decode(target, drafter, ids, Penalties(repetition=1.3))
    wanted = target.alone(ids, repetition_penalty=1.3)
    assert found == wanted
    assert wanted != target.alone(ids), "the penalty should change this text"
    assert acceptance >= 1.0
