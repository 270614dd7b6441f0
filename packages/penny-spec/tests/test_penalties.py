"""Penalties on the rows of a chain, against hand-worked rows and a token-by-token loop."""

import math
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from penny_spec.verify import Penalties, count_tokens, greedy, penalise, penalise_constant

VOCABULARY = 6


def test_repetition_penalty_in_block_verification() -> None:
    """Case SD-05: two requests with the same row; one has seen token 7, the other token 9."""
    row = torch.full((10,), -9.0)
    row[7], row[8], row[9] = 3.0, 2.5, -1.0
    logits = row.expand(2, 2, 10)
    drafts = torch.tensor([[7], [7]])
    seen = count_tokens(torch.tensor([[7], [9]]), 10)
    found = penalise(logits, drafts, seen, Penalties(repetition=2.0))
    assert found[0, 0, 7:].tolist() == [1.5, 2.5, -1.0]
    assert found[1, 0, 7:].tolist() == [3.0, 2.5, -2.0]
    verdict = greedy(drafts, found)
    assert verdict.tokens[0, 0] == 8
    assert verdict.accepted.tolist() == [0, 1]


def test_additive_penalties_and_bias_by_hand() -> None:
    # Token 0 was generated twice, token 1 once; the chain is 1, then 2.
    logits = torch.zeros(1, 3, 4, dtype=torch.float64)
    bias = torch.tensor([0.0, 0.0, -math.inf, 5.0], dtype=torch.float64)
    found = penalise(
        logits,
        torch.tensor([[1, 2]]),
        torch.tensor([[2, 1, 0, 0]]),
        Penalties(presence=0.5, frequency=0.25, bias=bias),
    )
    banned = -math.inf
    assert found[0].tolist() == [
        [-1.0, -0.75, banned, 5.0],
        [-1.0, -1.0, banned, 5.0],  # token 1 counts twice after itself
        [-1.0, -1.0, banned, 5.0],
    ]


def test_subtraction_comes_before_division_and_bias_last() -> None:
    # 1 - 3 = -2, now below 0, so times 2, plus 10. Division first would give 0.5 - 3 + 10 = 7.5.
    found = penalise(
        torch.tensor([[[1.0, 0.0]]]),
        torch.zeros(1, 0, dtype=torch.long),
        torch.tensor([[1, 0]]),
        Penalties(presence=3.0, repetition=2.0, bias=torch.tensor([10.0, 0.0])),
    )
    assert found.tolist() == [[[6.0, 0.0]]]


def test_the_block_constant_form_repeats_where_decoding_one_by_one_does_not() -> None:
    # The target likes token 0 (2.0) over token 1 (1.5) in each row. With presence 1 it may come once.
    logits = torch.tensor([2.0, 1.5, 0.0]).expand(1, 3, 3)
    drafts, none = torch.tensor([[0, 0]]), torch.zeros(1, 3, dtype=torch.long)
    penalties = Penalties(presence=1.0)
    exact = penalise(logits, drafts, none, penalties)
    constant = penalise_constant(logits, drafts, none, penalties)
    assert greedy(drafts, exact).tokens.tolist() == [[0, 1, -1]]
    assert greedy(drafts, constant).tokens.tolist() == [[0, 0, 0]]
    # They differ in the later rows, at the chain's own tokens, and nowhere else.
    assert torch.nonzero(exact != constant).tolist() == [[0, 1, 0], [0, 2, 0]]


def test_each_request_has_its_own_penalties_and_chains_end_early() -> None:
    logits = torch.full((2, 3, VOCABULARY), 4.0)
    drafts = torch.tensor([[1, 2], [3, -1]])
    penalties = Penalties(frequency=torch.tensor([1.0, 0.0]), repetition=torch.tensor([1.0, 2.0]))
    found = penalise(
        logits, drafts, torch.zeros(2, VOCABULARY, dtype=torch.long), penalties, lengths=torch.tensor([2, 1])
    )
    changed = torch.nonzero(found != 4.0).tolist()
    assert changed == [[0, 1, 1], [0, 2, 1], [0, 2, 2], [1, 1, 3], [1, 2, 3]]
    assert (float(found[0, 1, 1]), float(found[1, 1, 3])) == (3.0, 2.0)


def test_the_logits_that_come_in_are_not_changed() -> None:
    logits = torch.ones(1, 2, 3)
    penalise(logits, torch.tensor([[0]]), torch.ones(1, 3, dtype=torch.long), Penalties(presence=1.0))
    assert logits.tolist() == [[[1.0] * 3] * 2]


def test_counting() -> None:
    assert count_tokens(torch.tensor([[2, 0, 2], [1, -1, -1]]), 3).tolist() == [[1, 0, 2], [0, 1, 0]]
    assert count_tokens(torch.zeros(1, 0, dtype=torch.long), 2).tolist() == [[0, 0]]
    with pytest.raises(ValueError, match="holds id 3; the vocabulary has ids 0 to 2"):
        count_tokens(torch.tensor([[3]]), 3)


# ---- token by token

numbers = st.floats(-4, 4, allow_nan=False).map(lambda x: round(x, 3))
ids = st.integers(0, VOCABULARY - 1)


@st.composite
def chains(draw: st.DrawFn) -> dict[str, Any]:
    width = draw(st.integers(0, 5))
    row = st.lists(numbers, min_size=VOCABULARY, max_size=VOCABULARY)
    return {
        "logits": draw(st.lists(row, min_size=width + 1, max_size=width + 1)),
        "drafts": draw(st.lists(ids, min_size=width, max_size=width)),
        "before": draw(st.lists(ids, max_size=8)),
        "presence": draw(numbers),
        "frequency": draw(numbers),
        "repetition": draw(st.floats(0.25, 4)),
        "bias": draw(row),
    }


def one_by_one(case: dict[str, Any]) -> list[list[float]]:
    rows = []
    for j, row in enumerate(case["logits"]):
        text = case["before"] + case["drafts"][:j]
        out = []
        for token, logit in enumerate(row):
            times = len([t for t in text if t == token])
            value = logit
            if times:
                value -= case["presence"] + times * case["frequency"]
                value = value * case["repetition"] if value < 0 else value / case["repetition"]
            out.append(value + case["bias"][token])
        rows.append(out)
    return rows


def tensors(case: dict[str, Any]) -> tuple[Tensor, Tensor, Tensor, Penalties]:
    penalties = Penalties(
        case["presence"],
        case["frequency"],
        case["repetition"],
        torch.tensor([case["bias"]], dtype=torch.float64),
    )
    logits = torch.tensor([case["logits"]], dtype=torch.float64)
    drafts = torch.tensor([case["drafts"]], dtype=torch.long)
    return (
        logits,
        drafts,
        count_tokens(torch.tensor([case["before"]], dtype=torch.long), VOCABULARY),
        penalties,
    )


@given(chains())
@settings(max_examples=200, deadline=None)
def test_rows_equal_penalties_token_by_token(case: dict[str, Any]) -> None:
    logits, drafts, counts, penalties = tensors(case)
    found = penalise(logits, drafts, counts, penalties)
    torch.testing.assert_close(
        found[0], torch.tensor(one_by_one(case), dtype=torch.float64), rtol=0, atol=1e-9
    )
    # Where no token is drafted twice or was seen before, row 0 and the block-constant form agree.
    constant = penalise_constant(logits, drafts, counts, penalties)
    assert torch.equal(constant[:, 0], found[:, 0])
    others = [t for t in range(VOCABULARY) if t not in case["drafts"]]
    assert torch.equal(constant[..., others], found[..., others])


@given(chains())
@settings(max_examples=200, deadline=None)
def test_greedy_verification_emits_what_decoding_one_by_one_emits(case: dict[str, Any]) -> None:
    """The target's row depends only on how many tokens came: so a plain loop can decode without a chain."""
    logits, drafts, counts, penalties = tensors(case)
    text = list(case["before"])
    for j in range(len(case["logits"])):
        rows = one_by_one(
            case | {"before": text[: len(case["before"])], "drafts": text[len(case["before"]) :] + [0] * 9}
        )
        text.append(max(range(VOCABULARY), key=lambda t, row=rows[j]: (row[t], -t)))
    found = greedy(drafts, penalise(logits, drafts, counts, penalties))
    count = int(found.emitted)
    assert found.tokens[0, :count].tolist() == text[len(case["before"]) :][:count]


class Batch:
    """What SGLang's penalisers read of a batch."""

    device = "cpu"

    def __init__(self, reqs: list[SimpleNamespace]) -> None:
        self.reqs = reqs


@pytest.mark.parametrize("setting", [(0.5, 0.0, 1.0), (0.0, 0.7, 1.0), (0.0, 0.0, 1.3), (-0.4, 0.2, 0.8)])
def test_the_block_constant_form_is_sglangs(setting: tuple[float, float, float]) -> None:
    """SGLang's own penalisers count the tokens, and its own function divides, as its EAGLE verification does."""
    library = pytest.importorskip("sglang.srt.sampling.penaltylib")
    from sglang.srt.sampling.penaltylib.repetition_penalty import apply_scaling_penalties

    presence, frequency, repetition = setting
    values = {"presence_penalty": presence, "frequency_penalty": frequency, "repetition_penalty": repetition}
    batch = Batch([SimpleNamespace(sampling_params=SimpleNamespace(**values))] * 2)
    kinds = {
        library.BatchedPresencePenalizer,
        library.BatchedFrequencyPenalizer,
        library.BatchedRepetitionPenalizer,
    }
    orchestrator = library.BatchedPenalizerOrchestrator(vocab_size=VOCABULARY, batch=batch, penalizers=kinds)
    text = torch.tensor([[1, 1, 4], [0, 5, 0]])
    for step in text.T:
        orchestrator.cumulate_output_tokens(step)
    logits = torch.randn(2, 3, VOCABULARY, generator=torch.Generator().manual_seed(1)) * 3
    wanted = logits.clone().view(6, VOCABULARY)
    additive = torch.zeros(2, VOCABULARY)
    orchestrator.accumulate_additive_penalties(additive)
    wanted += additive.repeat_interleave(3, dim=0)
    scaling = orchestrator.accumulate_scaling_penalties()
    if scaling is not None:
        with torch.compiler.set_stance("force_eager"):
            apply_scaling_penalties(wanted, scaling.repeat_interleave(3, dim=0))
    found = penalise_constant(
        logits,
        torch.tensor([[1, 2], [3, 0]]),
        count_tokens(text, VOCABULARY),
        Penalties(presence, frequency, repetition),
    )
    torch.testing.assert_close(found.view(6, VOCABULARY), wanted, rtol=0, atol=1e-6)
    assert not torch.equal(found, logits)


# ---- refusals


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"penalties": Penalties(repetition=0.0)}, "repetition is 0.0; it must be finite and positive"),
        ({"penalties": Penalties(presence=math.nan)}, "presence is nan; it must be finite"),
        ({"penalties": Penalties(frequency=torch.zeros(3))}, r"frequency has shape \(3,\); pass a number"),
        (
            {"penalties": Penalties(bias=torch.zeros(2, 3))},
            r"bias has shape \(2, 3\); pass \(1, 4\) or \(4,\)",
        ),
        ({"penalties": Penalties(bias=torch.full((4,), math.inf))}, r"bias holds NaN or \+inf"),
        ({"generated": torch.zeros(1, 4)}, "generated is float32 of shape"),
        ({"generated": torch.zeros(1, 3, dtype=torch.long)}, r"pass integer counts \(1, 4\)"),
        ({"generated": torch.tensor([[0, -1, 0, 0]])}, "generated holds a negative count"),
        ({"draft_tokens": torch.tensor([[4]])}, "the vocabulary has ids 0 to 3"),
    ],
)
def test_wrong_arguments_are_refused(change: dict[str, Any], message: str) -> None:
    good = {
        "target_logits": torch.zeros(1, 2, 4),
        "draft_tokens": torch.tensor([[1]]),
        "generated": torch.zeros(1, 4, dtype=torch.long),
        "penalties": Penalties(),
    }
    with pytest.raises(ValueError, match=message):
        penalise(**(good | change))
