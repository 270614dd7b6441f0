"""Stops, reasoning counts and recurrent states: the cases, worked by hand."""

from typing import Literal

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from penny_spec.verify import Ending, ReasoningCount, committed_state, count_reasoning, end_run

STOP = 99
THINK_END = 98


@pytest.mark.parametrize(
    ("before", "accepted", "emitted", "reason", "completion"),
    [
        ([31, 32, 33], [STOP, 40, 41, 42], [STOP], "stop", 4),
        ([31, 32, 33], [40, 41, STOP, 42], [40, 41, STOP], "stop", 6),
        ([31, 32, 33], [40, 41, 42, STOP], [40, 41, 42], "length", 6),
        ([31, 32, 33, 34], [STOP], [STOP], "stop", 5),
        ([31, 32, 33], [40, 41], [40, 41], None, 5),
    ],
)
def test_a_stop_token_inside_an_accepted_run(
    before: list[int],
    accepted: list[int],
    emitted: list[int],
    reason: Literal["stop", "length"] | None,
    completion: int,
) -> None:
    """Case SD-01, with a limit of 6 tokens, and a run that ends nothing."""
    found = end_run(accepted, before=len(before), max_new_tokens=6, stop_ids={STOP})
    assert found == Ending(tuple(emitted), reason)
    assert len(before) + len(found.tokens) == completion


def test_without_stop_tokens_only_the_length_ends_a_request() -> None:
    assert end_run([STOP, 1], before=0, max_new_tokens=5) == Ending((STOP, 1), None)
    assert end_run([STOP, 1], before=0, max_new_tokens=2) == Ending((STOP, 1), "length")


@pytest.mark.parametrize("before", [-1, 6, 7])
def test_a_run_after_the_end_is_refused(before: int) -> None:
    with pytest.raises(ValueError, match=f"The request has {before} of 6 new tokens"):
        end_run([1], before=before, max_new_tokens=6)


@given(st.lists(st.integers(0, 3), max_size=9), st.integers(0, 6), st.sets(st.integers(0, 3)))
def test_a_run_ends_where_single_tokens_would(run: list[int], before: int, stops: set[int]) -> None:
    text: list[int] = []
    reason: Literal["stop", "length"] | None = None
    for token in run:
        text.append(token)
        reason = "stop" if token in stops else "length" if before + len(text) == 7 else None
        if reason:
            break
    assert end_run(run, before=before, max_new_tokens=7, stop_ids=stops) == Ending(tuple(text), reason)


@pytest.mark.parametrize(
    ("so_far", "accepted", "limit", "completion", "reasoning"),
    [
        (62, [1, 2, 3, 4, 5], 64, 64, {64}),
        (20, [1, STOP, 2, 2], 1000, 22, {21, 22}),
    ],
)
def test_reasoning_never_exceeds_completion(
    so_far: int, accepted: list[int], limit: int, completion: int, reasoning: set[int]
) -> None:
    """Case SD-02: all tokens so far were reasoning, and it is not closed."""
    ending = end_run(accepted, before=so_far, max_new_tokens=limit, stop_ids={STOP})
    found = count_reasoning(ending.tokens, ReasoningCount(so_far, False), THINK_END)
    assert so_far + len(ending.tokens) == completion
    assert found.tokens in reasoning
    assert found.tokens <= completion
    assert not found.closed


def test_reasoning_ends_with_its_closing_token() -> None:
    closed = count_reasoning([1, THINK_END, 2, THINK_END], ReasoningCount(3, False), THINK_END)
    assert closed == ReasoningCount(5, True)
    assert count_reasoning([4, 5], closed, THINK_END) == closed


def step(state: int, token: int) -> int:
    return (3 * state + token) % 1000


def test_the_state_after_partial_acceptance() -> None:
    """Case SD-11: state 18, pending token 4, drafts 5, 6, 7, of which one is accepted; 9 is added."""
    states, state = [], 18
    for token in [4, 5, 6, 7]:
        state = step(state, token)
        states.append(state)
    assert states == [58, 179, 543, 636]
    kept = committed_state(torch.tensor([states]), torch.tensor([1]))
    assert kept.tolist() == [179]
    # The next step has no drafts: it takes in the pending 9. Row 0 would give 183, the last row 917.
    assert step(int(kept), 9) == 546
    assert (step(states[0], 9), step(states[-1], 9)) == (183, 917)


def test_each_request_keeps_its_own_row() -> None:
    states = torch.arange(24).view(2, 3, 2, 2)
    assert committed_state(states, torch.tensor([2, 0])).tolist() == [
        [[8, 9], [10, 11]],
        [[12, 13], [14, 15]],
    ]


@pytest.mark.parametrize(
    ("accepted", "message"),
    [
        ([3, 0], "a chain with 3 states has 0 to 2 draft tokens"),
        ([-1, 0], "0 to 2"),
        ([0], r"\(2, 3\) and accepted \(1,\)"),
    ],
)
def test_wrong_rows_are_refused(accepted: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        committed_state(torch.zeros(2, 3), torch.tensor(accepted))
