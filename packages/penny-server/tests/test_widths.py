"""The width policy of a server and the option that asks for it; no server and no SGLang process."""

from __future__ import annotations

import json

import pytest

from penny_server.errors import PennyError
from penny_server.profiles.rules import Case
from penny_server.profiles.rules.speculation import RULES
from penny_server.profiles.speculation import adaptive, slots_of
from penny_server.sglang.widths import ENV, Widths, asked_slots

SLOTS = slots_of({"1": [3, 7], "4": [3]})
NEXTN = {
    "speculative_algorithm": "NEXTN",
    "speculative_num_steps": 7,
    "speculative_eagle_topk": 1,
    "speculative_num_draft_tokens": 8,
}


def check_all(settings: dict, asked: object) -> None:
    for rule in RULES:
        rule(Case(settings, {"adaptive": asked}, "cpu", None))


def test_the_environment_holds_what_the_profile_asks_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(ENV, raising=False)
    assert asked_slots() is None
    monkeypatch.setenv(ENV, json.dumps({"4": [3], "1": [3, 7]}))
    assert asked_slots() == SLOTS
    assert SLOTS.floors == ((1, (3, 7)), (4, (3,)))


def test_the_width_changes_only_when_asked_for_and_is_told_once() -> None:
    told: list[int] = []
    widths = Widths(SLOTS, 7, told.append)
    assert widths.candidate_steps == [3, 7]
    assert widths.get_steps_for_batch(1) == 7
    for _ in range(15):  # the warm-up of ten, then a decision after five
        widths.observe(7, [0])
        assert widths.on_verify_complete([0], 1) is None
    assert told == []  # nobody has asked yet
    assert [widths.get_steps_for_batch(1) for _ in range(3)] == [3, 3, 3]
    assert told == [3]
    assert widths.get_steps_for_batch(5) == 3
    assert told == [3]


def test_the_mean_starts_below_the_width_and_falls_under_the_threshold() -> None:
    """From 6, one accepted token of each forward: after n forwards 1 + 5 * 0.8^n. It is at most 3 - 0.5 - 0.25 = 2.25
    from n = 7 on, and the first decision is at the fifteenth forward."""
    widths = Widths(SLOTS, 7, lambda width: None)
    for forward in range(1, 16):
        assert widths.get_steps_for_batch(1) == 7, forward
        widths.observe(7, [1])
    assert widths.get_steps_for_batch(1) == 3


def test_every_batch_size_that_is_padded_to_a_graph_has_its_width_captured() -> None:
    """Graphs of 1, 2, 4 and 8 requests: a batch of three is padded to the graph of four and may draft seven."""
    widths = Widths(SLOTS, 7, lambda width: None)
    assert widths.cuda_graph_bs_for_step(7) is None  # no graphs
    widths.set_cuda_graph_bs([8, 4, 2, 1])
    assert widths.cuda_graph_bs_for_step(7) == [1, 2, 4]
    assert widths.cuda_graph_bs_for_step(3) == [1, 2, 4, 8]


def test_sglang_is_told_of_chains_only_and_of_a_cpu_without_graphs() -> None:
    assert adaptive(NEXTN, {}, "cuda") == {}
    assert adaptive(NEXTN, {"adaptive": {"1": [7]}}, "cuda") == {"speculative_adaptive": True}
    assert adaptive(NEXTN, {"adaptive": {"1": [7]}}, "cpu") == {
        "speculative_adaptive": True,
        "cuda_graph_backend_decode": "disabled",
    }
    assert adaptive({"speculative_algorithm": "DFLASH"}, {"adaptive": {"1": [7]}}, "cpu") == {}


@pytest.mark.parametrize(
    ("settings", "asked", "said"),
    [
        ({}, {"1": [3]}, "speculative_algorithm is not set"),
        (NEXTN | {"speculative_eagle_topk": 2}, {"1": [7]}, "with speculative_eagle_topk 2"),
        (NEXTN, {"1": [3, 5]}, "goes up to 5 draft tokens, and speculative_num_draft_tokens is 8"),
        (NEXTN, {"1": [3, 7, 15]}, "goes up to 15 draft tokens"),
        (NEXTN, {"1": 7}, "it takes lists of draft tokens by batch size"),
        (NEXTN, {"one": [7]}, "it takes lists of draft tokens by batch size"),
        (NEXTN, {"1": [2.5, 7]}, "draft tokens are whole numbers"),
        (NEXTN, {"1": [0, 7]}, "each at least 1"),
        (NEXTN, {"1": []}, "give at least one"),
        (NEXTN, {}, "give at least one"),
        (NEXTN | {"speculative_adaptive_config": "x.json", "speculative_adaptive": True}, {"1": [7]}, "keep one"),
    ],
)  # fmt: skip
def test_widths_that_cannot_be_are_refused(settings: dict, asked: dict, said: str) -> None:
    with pytest.raises(PennyError) as refused:
        check_all(settings, asked)
    assert said in str(refused.value)


@pytest.mark.parametrize(
    "settings", [NEXTN, {"speculative_algorithm": "DFLASH", "speculative_num_draft_tokens": 8}]
)
def test_widths_up_to_the_launch_width_are_taken(settings: dict) -> None:
    check_all(settings, '{"1": [3, 7], "4": [3]}')
