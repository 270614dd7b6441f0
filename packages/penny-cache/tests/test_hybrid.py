"""The rules of hybrid state against worked rows and against a model that tries every end."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penny_cache.hybrid import Commit, Committer, Rules, load_order, restorable

PARTS = ("kv", "qsa", "gdn", "ple")
FLASH_NEXT = Rules(frozenset({"kv", "qsa"}), frozenset({"gdn", "ple"}), frozenset({"ple"}))


def pages(kv: int, qsa: int, gdn: list[int], ple: list[int]) -> list[set[str]]:
    """Five pages: keys up to a page, snapshots at ends, both counted from one as in the reports."""
    rows = []
    for end in range(1, 6):
        there = {"kv": end <= kv, "qsa": end <= qsa, "gdn": end in gdn, "ple": end in ple}
        rows.append({name for name in PARTS if there[name]})
    return rows


@pytest.mark.parametrize(
    ("found", "end"),
    [
        (pages(5, 5, [5], [5]), 5),
        (pages(5, 5, [5], [4]), 0),
        (pages(5, 5, [2, 5], [2, 4]), 2),
        (pages(4, 5, [5], [5]), 0),
        (pages(5, 3, [1, 3, 5], [1, 5]), 1),
        (pages(5, 5, [], [5]), 0),
        ([], 0),
    ],
)
def test_a_prefix_ends_where_every_kind_of_state_can(found: list[set[str]], end: int) -> None:
    """The rows of case CP-14 (sglang 39147): the minimum over the kinds is 4 for the second, third and fourth row, and
    not every kind has a snapshot there."""
    assert restorable(found, FLASH_NEXT) == end


def test_a_hole_at_the_start_leaves_nothing() -> None:
    """Case CP-13: of 200 pages the first three were never written; 197 files are there and none is of use."""
    rules = Rules(frozenset({"kv"}))
    assert restorable([set()] * 3 + [{"kv"}] * 197, rules) == 0
    assert restorable([{"kv"}] * 200, rules) == 200


Pages = st.lists(st.sets(st.sampled_from(PARTS)), max_size=8)


@given(Pages)
def test_the_longest_of_all_legal_ends(found: list[set[str]]) -> None:
    legal = [
        end
        for end in range(1, len(found) + 1)
        if all({"kv", "qsa"} <= page for page in found[:end]) and {"gdn", "ple"} <= found[end - 1]
    ]
    assert restorable(found, FLASH_NEXT) == max(legal, default=0)


@given(Pages, st.integers(0, 7), st.sampled_from(PARTS))
def test_losing_a_part_never_makes_a_prefix_longer(found: list[set[str]], page: int, part: str) -> None:
    less = [parts - {part} if i == page else parts for i, parts in enumerate(found)]
    assert restorable(less, FLASH_NEXT) <= restorable(found, FLASH_NEXT)


@given(st.integers(1, 6))
def test_siblings_come_before_the_layers_and_the_copy_after_everything(end: int) -> None:
    steps = list(load_order(end, FLASH_NEXT))
    does = [step.do for step in steps]
    assert [(s.page, s.part) for s in steps[: does.index("release")]] == [(end - 1, "ple")]
    assert does.count("release") == 1
    assert does.index("copy") == len(steps) - 1
    assert steps[-1].page == end - 1
    loads = [(s.page, s.part) for s in steps if s.do == "load"]
    wanted = {(page, part) for page in range(end) for part in ("kv", "qsa")} | {
        (end - 1, "gdn"),
        (end - 1, "ple"),
    }
    assert len(loads) == len(wanted)
    assert set(loads) == wanted


def test_a_model_without_recurrent_state_copies_nothing() -> None:
    assert [step.do for step in load_order(1, Rules(frozenset({"kv"})))] == ["release", "load"]
    assert list(load_order(0, FLASH_NEXT)) == []
    with pytest.raises(ValueError, match="-1 pages"):
        list(load_order(-1, FLASH_NEXT))


@pytest.mark.parametrize(
    ("rules", "said"),
    [
        ((frozenset(),), "no prefix to restore"),
        ((frozenset({"kv"}), frozenset({"kv"})), "kv cannot be of every page and a snapshot"),
        ((frozenset({"kv"}), frozenset(), frozenset({"ple"})), "ple are siblings and no snapshots"),
    ],
)
def test_rules_that_contradict_themselves_are_refused(rules: tuple, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Rules(*rules)


def test_nothing_is_written_before_its_forward_is_done() -> None:
    committer = Committer()
    committer.started("a", 1)
    committer.started("b", 2)
    committer.started("c", 2)
    assert committer.finished(0) == []
    assert committer.finished(1) == [Commit("a", 1)]
    committer.dropped("b")
    assert len(committer) == 1
    assert committer.finished(3) == [Commit("c", 2)]
    assert committer.finished(3) == []
    committer.started("late", 3)  # its forward was done before it was noted
    assert committer.finished(0) == [Commit("late", 3)]
    committer.started("d", 5)
    with pytest.raises(ValueError, match="Forward 4 was started after 5"):
        committer.started("e", 4)


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 2)), max_size=30))
def test_every_prefix_is_given_out_once_and_not_early(steps: list[tuple[int, int]]) -> None:
    """Forwards are started and end in order, the ends somewhere behind."""
    committer, done, out = Committer(), -1, []
    noted: list[tuple[int, int]] = []
    for forward, (starts, lag) in enumerate(steps):
        for _ in range(starts):
            noted.append((len(noted), forward))
            committer.started(noted[-1][0], forward)
        done = max(done, forward - lag)
        given_out = committer.finished(done)
        assert all(commit.forward <= done for commit in given_out)
        out += [commit.key for commit in given_out]
    assert out == [key for key, at in noted if at <= done]
