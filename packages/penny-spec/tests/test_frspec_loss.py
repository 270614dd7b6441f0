"""What a map can cost: by hand, in the worst case, and against a simulated drafter."""

from itertools import pairwise

import numpy as np
import pytest

from penny_spec.frspec import InputError, expected_acceptance_loss


def test_by_hand() -> None:
    loss = expected_acceptance_loss(0.9, [0.8, 0.5, 0.05])
    assert loss.native == pytest.approx(1.35)
    assert loss.bound == pytest.approx(0.1 + 0.2 + 0.05)  # the last position has no more to lose
    assert loss.estimate == pytest.approx(0.8 * 0.1 + 0.5 * 0.19 + 0.05 * 0.271)


def test_ends() -> None:
    assert expected_acceptance_loss(1.0, [0.7, 0.6]).bound == 0
    nothing = expected_acceptance_loss(0.0, [0.7, 0.6])
    assert nothing.bound == nothing.estimate == nothing.native == pytest.approx(1.3)
    assert expected_acceptance_loss(0.5, []).bound == 0


def test_the_chinese_reading() -> None:
    # AntigravityAI: acceptance 0.57 fell to 0.06 with 13 CJK tokens. One position, coverage 0.1:
    # at least 0.57 - 0.9 < 0 is left, so the bound allows all of it; at coverage 0.95 at most 0.05 goes.
    assert expected_acceptance_loss(0.1, [0.57]).bound == pytest.approx(0.57)
    assert expected_acceptance_loss(0.95, [0.57]).bound == pytest.approx(0.05)


@pytest.mark.parametrize("coverage", [0.0, 0.2, 0.5, 0.9, 0.99, 1.0])
@pytest.mark.parametrize("shares", [[1.0, 1.0, 1.0], [0.9, 0.3, 0.3, 0.0], [0.05]])
def test_the_estimate_never_exceeds_the_bound(coverage: float, shares: list[float]) -> None:
    loss = expected_acceptance_loss(coverage, shares)
    assert 0 <= loss.estimate <= loss.bound + 1e-12
    assert loss.bound <= loss.native


def test_bad_shares() -> None:
    with pytest.raises(InputError, match="which rises"):
        expected_acceptance_loss(0.9, [0.5, 0.6])
    with pytest.raises(InputError, match=r"1\.1 is no share"):
        expected_acceptance_loss(1.1, [0.5])
    with pytest.raises(InputError, match="nan is no share"):
        expected_acceptance_loss(0.9, [float("nan")])


@pytest.mark.parametrize("correlated", [False, True])
def test_a_simulated_drafter_loses_no_more(correlated: bool) -> None:
    """Argmax drafts of random logits, full head against the map's rows, over the same 200,000 chains."""
    rng = np.random.default_rng(20261129)
    steps, width, vocabulary, rows = 200_000, 3, 12, 9
    target = rng.integers(vocabulary, size=(steps, width))
    logits = rng.normal(size=(steps, width, vocabulary))
    # The draft leans to the target's token; correlated: most where the map (ids below 9) lacks the token.
    lean = np.where(target >= rows, 6.0, 1.5) if correlated else np.full(target.shape, 2.0)
    np.put_along_axis(
        logits, target[..., None], np.take_along_axis(logits, target[..., None], 2) + lean[..., None], 2
    )

    def survival(head: int) -> np.ndarray:
        agrees = logits[..., :head].argmax(axis=2) == target
        return agrees.cumprod(axis=1).mean(axis=0)

    native, mapped = survival(vocabulary), survival(rows)
    assert all(a >= b for a, b in pairwise(native))
    loss = expected_acceptance_loss(float((target < rows).mean()), native.tolist())
    measured = float(native.sum() - mapped.sum())
    assert loss.native == pytest.approx(native.sum())
    assert measured > 0.1  # the map costs something here, so the comparison can fail
    assert measured <= loss.bound + 0.005
    # Where drafts agree most on what the map lacks, the independent estimate is too low.
    assert (measured > loss.estimate) == correlated
