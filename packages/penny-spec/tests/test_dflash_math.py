"""The parts of DFlash2 against hand-worked numbers, plain loops, and SGLang's own modules."""

import math
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from penny_spec.dflash import (
    CandidateSelector,
    GroupedConvolution,
    LayerSight,
    Proposal,
    Rope,
    convolve,
    follow,
    follow_in_order,
    walk,
)
from penny_spec.dflash.layers import RMSNorm, visible
from penny_spec.dflash.rotary import frequencies, rotary_table, rotate
from penny_spec.verify import rejection


@pytest.fixture(scope="module")
def stock() -> Iterator[Any]:
    """SGLang's own draft module, its compiled functions run as they are written."""
    module = pytest.importorskip("sglang.srt.models.dflash")
    torch.compiler.set_stance("force_eager")
    yield module
    torch.compiler.set_stance("default")


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed))


def filled(module: torch.nn.Module, seed: int) -> Any:
    with torch.no_grad():
        for index, parameter in enumerate(module.parameters()):
            parameter.copy_(normal(*parameter.shape, seed=100 * seed + index) * parameter.shape[-1] ** -0.5)
    return module.requires_grad_(False)


# ---- convolution


def test_convolution_by_hand() -> None:
    # Two channels in one group, three rows, two taps.
    rows = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    base = torch.tensor([[1.0, 10.0], [0.5, 0.0]])
    delta = torch.tensor([[[0.0], [7.0]], [[1.0], [0.0]], [[0.0], [2.0]]])
    # Row 0 has no row before it: the 7 is void. Row 1: (1+1)3 + 0.5*1, (10+1)4 + 0*2.
    # Row 2: 1*5 + (0.5+2)3, 10*6 + (0+2)4.
    assert convolve(rows, base, delta).tolist() == [[1.0, 20.0], [6.5, 44.0], [12.5, 68.0]]


def test_convolution_does_not_leave_float16() -> None:
    # 300 * 300 - 300 * 250: the first product is above 65,504.
    rows = torch.full((2, 1), 300.0, dtype=torch.float16)
    base = torch.tensor([[300.0], [-250.0]], dtype=torch.float16)
    out = convolve(rows, base, torch.zeros(2, 2, 1, dtype=torch.float16))
    assert out.dtype == torch.float16
    assert out[1].tolist() == [15000.0]


def test_convolution_of_more_taps_than_rows_uses_the_rows_there_are() -> None:
    assert convolve(torch.tensor([[2.0]]), torch.tensor([[3.0], [5.0]]), torch.zeros(1, 2, 1)).tolist() == [
        [6.0]
    ]


@pytest.mark.parametrize("block", [8, 6])
def test_convolution_equals_sglangs(stock: Any, block: int) -> None:
    ours, theirs = filled(GroupedConvolution(32, 3, 8), 1), stock.DFlashGroupedConv(32, block, 3, 8)
    theirs.load_state_dict(ours.state_dict())
    rows, out = normal(5, block, 32), normal(5, block, 32, seed=1)
    found, delta = ours.before(rows)
    wanted, their_delta = theirs.prepare(rows.flatten(0, 1))
    torch.testing.assert_close(found.flatten(0, 1), wanted, rtol=0, atol=1e-5)
    finished = theirs.finish(out.flatten(0, 1), their_delta)
    torch.testing.assert_close(ours.after(out, delta).flatten(0, 1), finished, rtol=0, atol=1e-5)


# ---- norm, rotary embedding, mask


def test_norm_and_rotation_by_hand() -> None:
    norm = RMSNorm(2, eps=0.0)
    norm.weight.data = torch.tensor([2.0, 1.0])
    # rms of (3, 4) is sqrt(12.5).
    wanted = [6 / math.sqrt(12.5), 4 / math.sqrt(12.5)]
    assert norm(torch.tensor([3.0, 4.0])).tolist() == pytest.approx(wanted, rel=1e-6)
    # One pair, frequency 1: position 2 turns (1, 0) by 2 radians.
    table = rotary_table(Rope(theta=100.0), torch.tensor([0, 2]), 2, torch.float64)
    turned = rotate(torch.tensor([[[1.0, 0.0], [1.0, 0.0]]], dtype=torch.float64), table)
    assert turned[0].tolist() == [[1.0, 0.0], pytest.approx([math.cos(2), math.sin(2)])]


def test_yarn_by_hand() -> None:
    # Width 4, theta 100: plain frequencies 1 and 0.1. In 628 tokens they turn about 100 and 10 times. With bounds
    # of 50 and 20 turns the first is kept and the second divided by 4.
    rope = Rope(theta=100.0, factor=4.0, original=628, fast=50.0, slow=20.0)
    assert frequencies(rope, 4, torch.float64).tolist() == pytest.approx([1.0, 0.025])
    assert rope.magnitude == pytest.approx(0.1 * math.log(4) + 1)


@pytest.mark.parametrize(
    "rope",
    [Rope(1e7), Rope(1e7, 2.0, 262_144), Rope(1e4, 8.0, 4096, 16.0, 2.0)],
)
def test_rotary_table_equals_sglangs(rope: Rope) -> None:
    base = pytest.importorskip("sglang.srt.layers.rotary_embedding.base")
    yarn = pytest.importorskip("sglang.srt.layers.rotary_embedding.yarn")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(base, "_is_cpu", True)
        small = (64, 64, 512 if not rope.yarn else rope.original, rope.theta, True)
        if rope.yarn:
            bounds = {"beta_fast": rope.fast, "beta_slow": rope.slow}
            theirs = yarn.YaRNScalingRotaryEmbedding(*small, rope.factor, torch.float32, **bounds)
        else:
            theirs = base.RotaryEmbedding(*small, torch.float32)
    positions = torch.tensor([0, 1, 17, 500])
    wanted = theirs.cos_sin_cache[positions].float()
    found = torch.cat(rotary_table(rope, positions, 64, torch.float32), dim=-1)
    torch.testing.assert_close(found, wanted, rtol=0, atol=1e-4)


def test_what_rows_see() -> None:
    # Three context tokens, rows at positions 3 and 4.
    cpu = torch.device("cpu")
    assert visible(3, 2, LayerSight(3, True), cpu).int().tolist() == [[0, 1, 1, 1, 0], [0, 0, 1, 1, 1]]
    assert visible(3, 2, LayerSight(None, False), cpu).int().tolist() == [[1, 1, 1, 1, 1]] * 2
    assert visible(3, 2, LayerSight(None, True), cpu).int().tolist() == [[1, 1, 1, 1, 0], [1, 1, 1, 1, 1]]
    assert visible(3, 2, LayerSight(2, False), cpu).int().tolist() == [[0, 0, 1, 1, 1], [0, 0, 0, 1, 1]]


# ---- selector


def one_request(*slots: list[list[float]]) -> Tensor:
    return torch.tensor([list(slots)])


def test_scores_by_hand() -> None:
    selector = CandidateSelector(hidden_size=1, vocab_size=3, rank=2).requires_grad_(False)
    selector.predecessor_codebook.copy_(torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]))
    selector.successor_codebook.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
    selector.hidden_projection.weight.copy_(torch.tensor([[1.0], [10.0]]))
    candidates = torch.tensor([[[0, 2], [1, 2]]])
    unary = torch.tensor([[[0.5, 0.25], [0.0, 100.0]]])
    scores = selector.scores(candidates, unary, torch.tensor([[[1.0], [2.0]]]), torch.tensor([1]))
    # Slot 0, anchor 1: A = (3, 4) * (1, 10) = (3, 40); with B[0]: 3, with B[2]: 43.
    assert scores[0, 0].tolist() == [[3.5, 43.25], [3.5, 43.25]]
    # Slot 1, projection (2, 20). From 0: (2, 40), with B[1]: 40, with B[2]: 42. From 2: (10, 120): 120 and 130.
    assert scores[0, 1].tolist() == [[40.0, 142.0], [120.0, 230.0]]


def test_the_best_step_is_taken_not_the_best_path() -> None:
    # Candidate 1 of slot 0 would lead to a sum of 0.9 + 9; the walk takes 1.0 first, then 0.2.
    scores = one_request([[1.0, 0.9], [1.0, 0.9]], [[0.1, 0.2], [9.0, 0.0]])
    found = walk(torch.tensor([[[10, 11], [20, 21]]]), scores, temperatures=torch.tensor([0.0]))
    assert found.tokens.tolist() == [[10, 21]]
    assert found.probabilities.tolist() == [[[1.0, 0.0], [0.0, 1.0]]]


def test_equal_scores_go_to_the_first_candidate() -> None:
    found = walk(torch.tensor([[[7, 3, 5]]]), torch.zeros(1, 1, 3, 3), temperatures=torch.zeros(1))
    assert found.tokens.tolist() == [[7]]


@pytest.mark.parametrize(
    ("first", "second", "tokens"),
    [
        (0.24, 0.0, [10, 20]),  # slot 0: 1/4 and 3/4
        (0.25, 0.0, [11, 20]),
        (0.0, 0.49, [10, 20]),  # after 10: 1/2 and 1/2
        (0.0, 0.51, [10, 21]),
        (0.9, 0.79, [11, 20]),  # after 11: 4/5 and 1/5
        (0.9, 0.81, [11, 21]),
    ],
)
def test_sampling_by_hand(first: float, second: float, tokens: list[int]) -> None:
    # At temperature 2 a score of 2 ln(w) has weight w.
    logs = [[[1.0, 3.0]] * 2, [[1.0, 1.0], [4.0, 1.0]]]
    scores = 2.0 * torch.tensor([logs], dtype=torch.float64).log()
    uniforms = torch.tensor([[first, second]], dtype=torch.float64)
    candidates = torch.tensor([[[10, 11], [20, 21]]])
    found = walk(candidates, scores, temperatures=torch.tensor([2.0]), uniforms=uniforms)
    assert found.tokens.tolist() == [tokens]
    after = [0.5, 0.5] if tokens[0] == 10 else [0.8, 0.2]
    assert found.probabilities.flatten().tolist() == pytest.approx([0.25, 0.75, *after])


@given(st.integers(1, 17), st.integers(1, 9), st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_the_scan_equals_the_walk_in_order(slots: int, count: int, seed: int) -> None:
    choices = torch.randint(0, count, (5, slots, count), generator=torch.Generator().manual_seed(seed))
    choices[:, 0] = choices[:, 0, :1]
    kept = choices.clone()
    expected = []
    for request in choices.tolist():
        place, path = 0, []
        for step in request:
            place = step[place]
            path.append(place)
        expected.append(path)
    assert follow(choices).tolist() == expected
    assert follow_in_order(choices).tolist() == expected
    assert torch.equal(choices, kept)


@pytest.mark.parametrize("temperature", [0.0, 0.3, 1.0, 2.5])
def test_the_selector_equals_sglangs(stock: Any, temperature: float) -> None:
    ours = filled(CandidateSelector(32, 50, 4), 2)
    theirs = stock.CandidateSelector(hidden_size=32, vocab_size=50, state_rank=4, top_k=5)
    theirs.load_state_dict(ours.state_dict())
    hidden, anchors = normal(64, 7, 32), torch.arange(64) % 50
    unary, candidates = normal(64, 7, 50, seed=1).topk(5)
    uniforms = torch.rand(64, 7, generator=torch.Generator().manual_seed(2))
    wanted_scores = theirs.build_lattice(
        candidate_ids=candidates, unary_logits=unary, hidden_states=hidden, anchor_token_ids=anchors
    )
    scores = ours.scores(candidates, unary, hidden, anchors)
    torch.testing.assert_close(scores, wanted_scores, rtol=0, atol=1e-5)
    wanted, wanted_q = theirs.sample_path(
        candidate_ids=candidates,
        scores=wanted_scores,
        uniforms=uniforms,
        temperatures=torch.full((64,), max(temperature, 1e-5)),
        greedy_mask=torch.full((64,), temperature == 0.0),
    )
    found = walk(candidates, scores, temperatures=torch.full((64,), temperature), uniforms=uniforms)
    assert torch.equal(found.tokens, wanted)
    torch.testing.assert_close(found.probabilities.float(), wanted_q, rtol=0, atol=1e-5)


def test_a_batch_may_mix_greedy_and_sampled_requests() -> None:
    scores = torch.tensor([[[[0.0, 1.0]] * 2]] * 2)
    found = walk(
        torch.tensor([[[10, 11]]] * 2),
        scores,
        temperatures=torch.tensor([0.0, 1.0]),
        uniforms=torch.tensor([[0.1], [0.1]]),
    )
    assert found.tokens.tolist() == [[11], [10]]  # softmax(0, 1) starts with 0.27


def test_rejection_of_sampled_proposals_keeps_the_targets_distribution() -> None:
    """40,000 draws of two slots over 4 tokens: the pair is distributed as the target, by chi-square."""
    stats = pytest.importorskip("scipy.stats")
    draws = 40_000
    generator = torch.Generator().manual_seed(3)
    selector = filled(CandidateSelector(6, 4, 3), 5)
    candidates = torch.tensor([[0, 2, 3], [1, 2, 3]]).expand(draws, 2, 3)
    unary, hidden = normal(1, 2, 3).expand(draws, 2, 3), normal(1, 2, 6, seed=1).expand(draws, 2, 6)
    scores = selector.scores(candidates, unary, hidden, torch.zeros(draws, dtype=torch.long))
    uniforms = torch.rand(draws, 2, generator=generator)
    found = walk(candidates, scores, temperatures=torch.full((draws,), 0.8), uniforms=uniforms)
    # The target's second row depends on the first token, its bonus row is not looked at.
    table = normal(5, 4, seed=7).double().softmax(-1)
    target = torch.stack(
        [table[4].expand(draws, 4), table[found.tokens[:, 0]], table[4].expand(draws, 4)], dim=1
    )
    coins = torch.rand(draws, 3, generator=generator)
    verdict = rejection(found.tokens, found.dense(4), target, coins)
    first = verdict.tokens[:, 0]
    # Where the first draft was refused, the second token is the target's own next draw.
    own = torch.multinomial(table[first], 1, generator=generator).squeeze(1)
    second = torch.where(verdict.tokens[:, 1] >= 0, verdict.tokens[:, 1], own)
    seen = torch.bincount(first * 4 + second, minlength=16).double()
    expected = (table[4].unsqueeze(1) * table[:4]).flatten() * draws
    assert 0.2 < float(verdict.accepted.double().mean()) < 1.8
    assert stats.chisquare(seen.numpy(), expected.numpy()).pvalue > 0.01


def test_a_proposal_over_the_whole_vocabulary() -> None:
    proposal = Proposal(
        torch.tensor([[3]]), torch.tensor([[[3, 1]]]), torch.tensor([[[0.75, 0.25]]], dtype=torch.float64)
    )
    assert proposal.dense(5).tolist() == [[[0.0, 0.25, 0.0, 0.75, 0.0]]]
    with pytest.raises(ValueError, match="Candidate 3 lies outside a vocabulary of 3"):
        proposal.dense(3)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"candidates": torch.zeros(1, 2, dtype=torch.long)},
            r"shape \(1, 2\); pass \(batch, slots, candidates\)",
        ),
        ({"scores": torch.zeros(1, 2, 3)}, r"must be \(1, 2, 3, 3\)"),
        ({"scores": torch.full((1, 2, 3, 3), torch.nan)}, "NaN or infinity"),
        ({"temperatures": torch.tensor([-1.0])}, "pass 1 finite numbers of at least 0"),
        ({"temperatures": torch.tensor([torch.nan])}, "finite numbers"),
        ({"uniforms": None}, "Sampling needs uniforms"),
        ({"uniforms": torch.tensor([[0.5, 1.0]])}, r"from 0.5 to 1; pass torch.rand\(1, 2\)"),
        ({"uniforms": torch.tensor([[0.5]])}, r"uniforms has shape \(1, 1\)"),
    ],
)
def test_wrong_arguments_are_refused(change: dict[str, Any], message: str) -> None:
    good = {
        "candidates": torch.arange(6).view(1, 2, 3),
        "scores": torch.zeros(1, 2, 3, 3),
        "temperatures": torch.tensor([1.0]),
        "uniforms": torch.tensor([[0.5, 0.5]]),
    }
    with pytest.raises(ValueError, match=message):
        walk(**(good | change))
