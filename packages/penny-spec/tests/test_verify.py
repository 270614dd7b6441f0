"""Verification against hand-worked cases, a token-by-token loop, and the target's distribution."""

import math
from itertools import product

import pytest
import torch
from torch import Tensor

from penny_spec.verify import PADDING, greedy, rejection, target_only

SEED = 20261129
THIRD = 1.0 / 3.0


def rows(*values: list[float]) -> Tensor:
    """One request: `(1, len(values), V)`."""
    return torch.tensor([values], dtype=torch.float64)


def coins(*values: float) -> Tensor:
    return torch.tensor([values], dtype=torch.float64)


# ---- greedy


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_greedy_by_hand(dtype: torch.dtype) -> None:
    # Argmax of the four rows: 2, 0, 1, 2.
    one = torch.tensor([[0.0, 1, 2], [5, 1, 2], [-3, -1, -2], [0, 0, 9]], dtype=dtype)
    drafts = torch.tensor([[2, 0, 1], [2, 0, 2], [2, 1, 1], [0, 0, 1]])
    verdict = greedy(drafts, one.expand(4, 4, 3))
    assert verdict.accepted.tolist() == [3, 2, 1, 0]
    assert verdict.tokens.tolist() == [
        [2, 0, 1, 2],
        [2, 0, 1, PADDING],
        [2, 0, PADDING, PADDING],
        [2] + [PADDING] * 3,
    ]
    assert verdict.emitted.tolist() == [4, 3, 2, 1]


def test_greedy_tie_goes_to_the_lowest_id() -> None:
    logits = rows([1.0, 7.0, 7.0, 7.0], [0.0, 0.0, 0.0, 1.0])
    assert greedy(torch.tensor([[1]]), logits).tokens.tolist() == [[1, 3]]
    assert greedy(torch.tensor([[2]]), logits).tokens.tolist() == [[1, PADDING]]


def test_greedy_a_later_match_does_not_revive_a_chain() -> None:
    logits = rows([0.0, 1.0], [0.0, 1.0], [0.0, 1.0])
    assert greedy(torch.tensor([[0, 1]]), logits).accepted.tolist() == [0]


def test_greedy_penalised_row_rejects_the_draft() -> None:
    # Repetition penalty 2 on seen token 7 (3.0 -> 1.5) makes token 8 the choice (case SD-05).
    raw, penalised = torch.full((10,), -9.0), torch.full((10,), -9.0)
    raw[7], raw[8], raw[9] = 3.0, 2.5, -1.0
    penalised[7], penalised[8], penalised[9] = 1.5, 2.5, -1.0
    draft = torch.tensor([[7]])
    assert greedy(draft, torch.stack([raw, raw]).unsqueeze(0)).accepted.tolist() == [1]
    verdict = greedy(draft, torch.stack([penalised, raw]).unsqueeze(0))
    assert verdict.tokens.tolist() == [[8, PADDING]]


def test_shorter_chains_end_where_lengths_says() -> None:
    logits = torch.zeros(4, 3, 3)
    logits[:, 0, 1] = logits[:, 1, 2] = logits[:, 2, 0] = 1  # choices 1, 2, 0
    drafts = torch.tensor([[1, 2], [1, 99], [PADDING, PADDING], [0, PADDING]])
    logits[1, 2] = math.nan  # behind the end of the chain, so not read
    verdict = greedy(drafts, logits, lengths=torch.tensor([2, 1, 0, 1]))
    assert verdict.accepted.tolist() == [2, 1, 0, 0]
    assert verdict.tokens.tolist() == [
        [1, 2, 0],
        [1, 2, PADDING],
        [1, PADDING, PADDING],
        [1, PADDING, PADDING],
    ]


def test_chain_of_no_drafts_is_plain_decoding() -> None:
    none = torch.zeros(1, 0, dtype=torch.long)
    p = rows([0.25, 0.25, 0.5])
    assert greedy(none, p).tokens.tolist() == [[2]]
    assert target_only(none, p, coins(0.3)).tokens.tolist() == [[1]]
    assert rejection(none, torch.zeros(1, 0, 3), p, coins(0.5)).tokens.tolist() == [[2]]


# ---- target-only sampling, worked by hand


@pytest.mark.parametrize(
    ("draft", "coin", "last", "tokens"),
    [
        (1, 0.49, 0.0, [1, 0]),  # 0.49 < p(1) = 0.5: accepted, bonus from [1, 0, 0]
        (1, 0.50, 0.0, [0, PADDING]),  # refused; rest [0.2, 0, 0.3], 0.0 * 0.5 falls on 0
        (1, 0.50, 0.39, [0, PADDING]),  # 0.195 < 0.2
        (1, 0.50, 0.41, [2, PADDING]),  # 0.205 > 0.2: token 1 is skipped
        (2, 0.31, 0.99, [1, PADDING]),  # rest [0.2, 0.5, 0]: never the refused token again
    ],
)
def test_target_only_by_hand(draft: int, coin: float, last: float, tokens: list[int]) -> None:
    p = rows([0.2, 0.5, 0.3], [1.0, 0.0, 0.0])
    assert target_only(torch.tensor([[draft]]), p, coins(coin, last)).tokens.tolist() == [tokens]


def test_target_only_never_takes_an_impossible_draft() -> None:
    p = rows([0.0, 1.0], [1.0, 0.0])
    assert target_only(torch.tensor([[0]]), p, coins(0.0, 0.0)).tokens.tolist() == [[1, PADDING]]


# ---- rejection sampling, worked by hand


@pytest.mark.parametrize(
    ("draft", "coin", "last", "tokens"),
    [
        (0, 0.59, 0.99, [0, 1]),  # p/q = 0.3/0.5 = 0.6: accepted, bonus from [0, 1, 0]
        (0, 0.61, 0.00, [1, PADDING]),  # refused; max(p - q, 0) = [0, 0.1, 0.1]
        (0, 0.61, 0.49, [1, PADDING]),
        (0, 0.61, 0.51, [2, PADDING]),
        (1, 0.99, 0.00, [1, 1]),  # p > q: always accepted
    ],
)
def test_rejection_by_hand(draft: int, coin: float, last: float, tokens: list[int]) -> None:
    q = rows([0.5, 0.3, 0.2])
    p = rows([0.3, 0.4, 0.3], [0.0, 1.0, 0.0])
    assert rejection(torch.tensor([[draft]]), q, p, coins(coin, last)).tokens.tolist() == [tokens]


def test_rejection_equal_distributions_accept_everything() -> None:
    p = torch.softmax(torch.randn(64, 5, 11, generator=torch.Generator().manual_seed(SEED)), dim=-1)
    q = p[:, :4]
    generator = torch.Generator().manual_seed(SEED)
    drafts = torch.multinomial(q.flatten(0, 1), 1, generator=generator).view(64, 4)
    verdict = rejection(drafts, q, p, torch.rand(64, 5, generator=generator))
    assert verdict.accepted.tolist() == [4] * 64
    assert (verdict.tokens[:, :4] == drafts).all()
    assert (verdict.tokens[:, 4] >= 0).all()


def test_rejection_zero_probabilities() -> None:
    p = rows([0.0, 1.0], [0.5, 0.5])
    # p(d) = 0: refused even by a coin of 0.
    assert rejection(torch.tensor([[0]]), rows([0.5, 0.5]), p, coins(0.0, 0.0)).tokens.tolist() == [
        [1, PADDING]
    ]
    # q(d) = 0 though p(d) = 1: cannot have been drawn, refused; rest [0, 1] draws it all the same.
    assert rejection(torch.tensor([[1]]), rows([1.0, 0.0]), p, coins(0.0, 0.9)).accepted.tolist() == [0]


def test_rejection_rounding_that_leaves_no_rest_falls_back_on_the_target() -> None:
    q = torch.tensor([[[0.5, 0.5]]], dtype=torch.float32)
    p = torch.tensor([[[0.5 - 2.0**-25, 0.5], [0.5, 0.5]]], dtype=torch.float32)
    verdict = rejection(torch.tensor([[0]]), q, p, coins(1 - 2.0**-53, 0.9))
    assert verdict.tokens.tolist() == [[1, PADDING]]


def test_last_coin_at_its_largest_draws_the_last_token_with_weight() -> None:
    p = rows([THIRD, THIRD, THIRD, 0.0])
    none = torch.zeros(1, 0, dtype=torch.long)
    assert target_only(none, p, coins(1 - 2.0**-53)).tokens.tolist() == [[2]]


# ---- against a loop that follows the papers literally


def loop(draft: list[int], q: Tensor | None, p: Tensor, coin: list[float]) -> list[int]:
    """One request, one token at a time; `q` None stands for one with all its mass on the draft."""
    vocabulary = p.shape[1]
    out: list[int] = []
    weights = p[len(draft)].tolist()
    for j, token in enumerate(draft):
        q_row = [float(x == token) for x in range(vocabulary)] if q is None else q[j].tolist()
        if coin[j] < min(1.0, float(p[j, token]) / q_row[token]):
            out.append(token)
            continue
        weights = [max(float(p[j, x]) - q_row[x], 0.0) for x in range(vocabulary)]
        break
    threshold, running = coin[-1] * sum(weights), 0.0
    for x, weight in enumerate(weights):
        running += weight
        if running > threshold:
            return [*out, x]
    raise AssertionError("the coin lies beyond the last weight")


@pytest.mark.parametrize("known_draft", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_batched_rules_equal_the_loop(known_draft: bool, dtype: torch.dtype) -> None:
    generator = torch.Generator().manual_seed(SEED)
    batch, width, vocabulary = 400, 5, 13
    sharp = 2 if known_draft else 8  # guesses must often be right for long runs to be seen
    p = torch.softmax(
        sharp * torch.randn(batch, width + 1, vocabulary, generator=generator, dtype=dtype), dim=-1
    )
    q = torch.softmax(2 * torch.randn(batch, width, vocabulary, generator=generator, dtype=dtype), dim=-1)
    q = 0.7 * p[:, :width] + 0.3 * q  # close enough that long runs are accepted
    drafts = torch.multinomial(q.flatten(0, 1), 1, generator=generator).view(batch, width).int()
    coin = torch.rand(batch, width + 1, generator=generator, dtype=torch.float64)
    lengths = torch.randint(0, width + 1, (batch,), generator=generator)
    if known_draft:
        verdict = rejection(drafts, q, p, coin, lengths=lengths)
    else:
        verdict = target_only(drafts, p, coin, lengths=lengths)
    assert len(set(verdict.accepted.tolist())) == width + 1
    for b in range(batch):
        n = int(lengths[b])
        expected = loop(
            drafts[b, :n].tolist(),
            q[b, :n] if known_draft else None,
            p[b, : n + 1].double(),
            coin[b].tolist(),
        )
        assert verdict.tokens[b].tolist() == expected + [PADDING] * (width + 1 - len(expected)), (
            f"request {b}"
        )


# ---- distributions


def chi_square_p(observed: Tensor, expected: Tensor) -> float:
    """Right tail of the chi-square distribution, cells with an expectation of 0 must be empty."""
    possible = expected > 0
    assert int(observed[~possible].sum()) == 0
    assert float(expected[possible].min()) >= 5
    statistic = ((observed[possible] - expected[possible]) ** 2 / expected[possible]).sum()
    freedom = int(possible.sum()) - 1
    return float(torch.special.gammaincc(torch.tensor(freedom / 2, dtype=torch.float64), statistic / 2))


VOCABULARY, DRAWS = 8, 200_000
RULES = ["rejection", "target_only"]
TEMPERATURES = [0.7, 2.0]
COMPARISONS = len(RULES) * len(TEMPERATURES)


@pytest.mark.parametrize(("rule", "temperature"), list(product(RULES, TEMPERATURES)))
def test_two_tokens_are_distributed_as_the_target(rule: str, temperature: float) -> None:
    """Markov target and draft over 8 tokens: the first two tokens fall on 64 cells as p(a) p(b | a) says."""
    generator = torch.Generator().manual_seed(SEED)
    target = torch.randn(VOCABULARY + 1, VOCABULARY, generator=generator, dtype=torch.float64) / temperature
    target[:, 3] = -math.inf  # a token the target never says
    target = torch.softmax(target, dim=1)  # row: the token before; row 8: none
    draft = torch.softmax(
        torch.randn(VOCABULARY + 1, VOCABULARY, generator=generator, dtype=torch.float64), dim=1
    )

    def sample(model: Tensor, before: Tensor) -> Tensor:
        return torch.multinomial(model[before], 1, generator=generator).squeeze(1)

    start = torch.full((DRAWS,), VOCABULARY)
    first = sample(draft, start)
    second = sample(draft, first)
    contexts = torch.stack([start, first, second], dim=1)
    drafts = torch.stack([first, second], dim=1)
    coin = torch.rand(DRAWS, 3, generator=generator, dtype=torch.float64)
    if rule == "rejection":
        verdict = rejection(drafts, draft[contexts[:, :2]], target[contexts], coin)
    else:
        verdict = target_only(drafts, target[contexts], coin)
    one, two = verdict.tokens[:, 0], verdict.tokens[:, 1]
    two = torch.where(verdict.accepted > 0, two, sample(target, one))  # what the next step would say

    counts = torch.bincount(one * VOCABULARY + two, minlength=VOCABULARY**2).double()
    expected = (target[VOCABULARY].unsqueeze(1) * target[:VOCABULARY]).flatten() * DRAWS
    assert chi_square_p(counts, expected) > 0.01 / COMPARISONS

    # Leviathan et al., theorem 3.5: the first draft token is accepted with probability sum(min(p, q)).
    p, q = target[VOCABULARY], draft[VOCABULARY]
    rate = float(torch.minimum(p, q).sum()) if rule == "rejection" else float((p * q).sum())
    sigma = math.sqrt(rate * (1 - rate) / DRAWS)
    assert abs(float((verdict.accepted > 0).double().mean()) - rate) < 4 * sigma


def test_the_chi_square_test_can_fail() -> None:
    """Accepting every draft token gives the draft's distribution, which the same test must reject."""
    generator = torch.Generator().manual_seed(SEED)
    p, q = torch.softmax(torch.randn(2, VOCABULARY, generator=generator, dtype=torch.float64), dim=1)
    counts = torch.bincount(
        torch.multinomial(q, DRAWS, replacement=True, generator=generator), minlength=VOCABULARY
    )
    assert chi_square_p(counts.double(), q * DRAWS) > 0.01
    assert chi_square_p(counts.double(), p * DRAWS) < 1e-9


# ---- refusals


GOOD = (torch.tensor([[1]]), rows([0.5, 0.5]), rows([0.5, 0.5], [0.5, 0.5]), coins(0.5, 0.5))


@pytest.mark.parametrize(
    ("changed", "error", "words"),
    [
        ({0: torch.tensor([1])}, ValueError, r"draft_tokens has shape \(1,\)"),
        ({0: torch.tensor([[1.0]])}, TypeError, "draft_tokens is float32; convert it to int32 or int64"),
        (
            {0: torch.tensor([[2]])},
            ValueError,
            "Draft token 0 of request 0 is 2; the vocabulary has ids 0 to 1",
        ),
        ({0: torch.tensor([[-1]])}, ValueError, "Draft token 0 of request 0 is -1"),
        (
            {1: rows([0.5, 0.5, 0.0])},
            ValueError,
            r"draft_probs has shape \(1, 1, 3\); pass it as \(1, 1, 2\)",
        ),
        (
            {1: rows([3.0, -2.0])},
            ValueError,
            r"Row \[0, 0\] of draft_probs is no distribution: .* smallest entry is -2",
        ),
        ({2: rows([0.5, 0.5])}, ValueError, "one more than there are draft tokens"),
        ({2: GOOD[2].bfloat16()}, TypeError, "target_probs is bfloat16; convert it to float32 or float64"),
        ({2: rows([0.5, 0.5], [0.5, 0.6])}, ValueError, r"Row \[0, 1\] of target_probs .* sums to 1.1"),
        ({2: rows([0.5, 0.5], [math.nan, 0.5])}, ValueError, r"Row \[0, 1\] of target_probs"),
        ({3: coins(0.5)}, ValueError, r"coins has shape \(1, 1\); pass it as \(1, 2\)"),
        ({3: coins(0.5, 1.0)}, ValueError, r"Coin \[0, 1\] is 1.0"),
        ({0: GOOD[0].to("meta")}, ValueError, "draft_tokens is on meta and target_probs on cpu"),
    ],
)
def test_wrong_arguments_are_named(changed: dict[int, Tensor], error: type[Exception], words: str) -> None:
    arguments = [changed.get(i, value) for i, value in enumerate(GOOD)]
    with pytest.raises(error, match=words):
        rejection(*arguments)


def test_greedy_refuses_nan_and_rows_without_a_choice() -> None:
    draft = torch.tensor([[0]])
    with pytest.raises(ValueError, match=r"Row \[0, 1\] of target_logits holds NaN"):
        greedy(draft, rows([0.0, 1.0], [math.nan, 0.0]))
    with pytest.raises(ValueError, match=r"Row \[0, 0\] of target_logits masks every token"):
        greedy(draft, rows([-math.inf, -math.inf], [0.0, 0.0]))
    with pytest.raises(ValueError, match="each must be between 0 and 1 draft tokens"):
        greedy(draft, rows([0.0, 1.0], [0.0, 1.0]), lengths=torch.tensor([2]))
