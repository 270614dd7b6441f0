"""In which order bundles and snapshots are given up, whatever the parents say."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penny_cache.store.eviction import Victim, victims
from penny_cache.store.image import REMOVED, image_blocks
from penny_cache.store.index import ROW, Index, View
from penny_cache.store.records import BLOCK, NO_KEY

pytestmark = pytest.mark.timeout(120)  # a loop that does not end, not a slow machine

STATE = frozenset({"gdn"})


def key(name: str) -> bytes:
    return name.encode().ljust(32, b".")


def forest(edges: list[tuple[str, str, bool]]) -> Index:
    """Bundles by name, parent's name (empty for none), and whether they have a snapshot; used in this order."""
    index = Index()
    for name, parent, snapshot in edges:
        layout = (("kv", 100), ("gdn", 9000)) if snapshot else (("kv", 100),)
        row = np.zeros(1, ROW)
        row[0] = (
            key(name), key(parent) if parent else NO_KEY, 500 + len(index.rows), 1, 0, image_blocks(layout),
            index.layout_number(layout),
        )  # fmt: skip
        index.add(row)
    return index


def chosen(view: View, kept: Collection[int] = ()) -> list[Victim]:
    return list(victims(view, STATE, np.isin(np.arange(len(view.rows)), list(kept))))


def order(index: Index, kept: Collection[int] = ()) -> list[str]:
    names = [row["key"].tobytes().decode().rstrip(".") for row in index.rows]
    return [names[v.row] + ("".join(f"-{part}" for part in v.parts)) for v in chosen(index.view(), kept)]


def test_inner_snapshots_go_first_then_ends_the_longest_unused_first() -> None:
    """a - b - c - d with snapshots at a, b and d, and e hanging on b: b is a branch point and keeps its snapshot, and
    so does d, a tail. a is inside the path to b, which has a later one."""
    index = forest([("a", "", True), ("b", "a", True), ("c", "b", False), ("d", "c", True), ("e", "b", True)])
    assert order(index) == ["a-gdn", "d", "c", "e", "b", "a"]
    index.touch(np.array([3]))  # d is used, so e is the longest unused end
    assert order(index) == ["a-gdn", "e", "d", "c", "b", "a"]


def test_a_snapshot_with_none_after_it_stays() -> None:
    index = forest([("a", "", True), ("b", "a", False), ("c", "b", False)])
    assert order(index) == ["c", "b", "a"]


def test_a_snapshot_frees_its_payload_and_a_bundle_all_its_blocks() -> None:
    """9,000 bytes take three blocks; a bundle of both parts takes 2 headers, 1 + 3 blocks and a commit."""
    index = forest([("a", "", True), ("b", "a", True)])
    assert [v.size for v in chosen(index.view())] == [3 * BLOCK, 7 * BLOCK, 7 * BLOCK]


def test_a_victim_says_which_bundle_it_is() -> None:
    """A key may end in zero bytes, which a numpy string would lose."""
    index = forest([("a", "", True), ("b", "a", True)])
    index.rows["key"][1] = b"b".ljust(32, b"\0")
    snapshot, end, start = chosen(index.view())
    assert (snapshot.row, snapshot.key, snapshot.sequence) == (0, key("a"), 500)
    assert (end.row, end.key, end.sequence) == (1, b"b" + bytes(31), 501)
    assert (start.row, start.key, start.sequence) == (0, key("a"), 500)


def test_what_is_kept_keeps_its_chain() -> None:
    index = forest([("a", "", True), ("b", "a", True), ("c", "b", True), ("other", "", False)])
    assert order(index, {2}) == ["a-gdn", "b-gdn", "other"]
    assert order(index, {0}) == ["b-gdn", "c", "b", "other"]


def test_a_snapshot_that_went_before_is_none() -> None:
    index = forest([("a", "", True), ("b", "a", True), ("c", "b", True)])
    index.set_layout(1, (("kv", 100), (REMOVED, 9000)))
    assert order(index) == ["a-gdn", "c", "b", "a"]
    named = list(victims(index.view(), {*STATE, REMOVED}, np.zeros(3, bool)))
    assert [(v.row, v.parts) for v in named] == [(0, ("gdn",)), (2, ()), (1, ()), (0, ())]
    view = index.view()
    for name in ("new", "newer"):  # layouts that the view does not know
        index.set_layout(0, ((name, 100), (REMOVED, 9000)))
    assert [(v.row, v.parts) for v in chosen(view)] == [(2, ()), (1, ()), (0, ())]


def test_a_parent_that_is_missing_or_removed_makes_a_start() -> None:
    index = forest(
        [("a", "", True), ("b", "a", True), ("c", "b", True), ("x", "nowhere", True), ("y", "x", True)]
    )
    index.remove(np.array([1]))
    assert order(index) == ["x-gdn", "a", "c", "y", "x"]


def test_a_parent_is_known_by_its_whole_key() -> None:
    """Were b taken for a child of a, for the eight bytes that they share, a would not be the first end."""
    index = forest([("8 bytes. a", "", False), ("b", "8 bytes. other", False)])
    assert order(index) == ["8 bytes. a", "b"]


def test_what_is_its_own_parent_goes_last() -> None:
    """Four bundles: k is its own parent, l hangs on k, so k is a branch point; m is its own parent and nothing else."""
    index = forest([("k", "k", True), ("m", "m", True), ("l", "k", True), ("z", "", True)])
    assert order(index) == ["l", "z", "k", "m"]
    index.touch(np.array([0]))
    assert order(index) == ["l", "z", "m", "k"]
    assert order(index, {0}) == ["l", "z", "m"]
    assert order(index, {2}) == ["z", "m"]  # l is kept, and so is k, its parent


def test_a_ring_goes_last_and_stays_whole_for_what_is_kept() -> None:
    """a and b are each other's parents and c hangs on b, a branch point: a is inside the path to b. d and e are such a
    ring that nothing hangs on: no end, so no snapshot is known to be before another."""
    edges = [("a", "b", True), ("b", "a", True), ("c", "b", True), ("d", "e", True), ("e", "d", True)]
    index = forest([*edges, ("z", "", False)])
    assert order(index) == ["a-gdn", "c", "z", "a", "b", "d", "e"]
    assert order(index, {0}) == ["c", "z", "d", "e"]
    assert order(index, {2}) == ["a-gdn", "z", "d", "e"]
    assert order(index, {3}) == ["a-gdn", "c", "z", "a", "b"]


def test_of_two_bundles_with_one_key_the_newer_is_the_parent() -> None:
    """Were the first one the parent, it would not be the first end."""
    index = forest([("a", "", False), ("b", "a", False), ("a", "", False), ("c", "", False)])
    assert [v.row for v in chosen(index.view())] == [0, 1, 2, 3]
    assert [v.row for v in chosen(index.view(), {1})] == [0, 3]


def test_an_empty_store_has_nothing_to_give_up() -> None:
    assert chosen(Index().view()) == []


def test_kept_has_one_for_each_row() -> None:
    view = forest([("a", "", False)]).view()
    with pytest.raises(ValueError, match=r"shape \(2,\); the view has 1 rows"):
        next(victims(view, STATE, np.zeros(2, bool)))


@pytest.mark.parametrize(
    "first", ["", "shared bytes "], ids=["plain keys", "keys alike in their first bytes"]
)
def test_a_long_chain_and_a_long_ring_end(first: str) -> None:
    """3,000 on a chain with snapshots at each, so all but the tail's go; 3,000 on a ring, where none does."""
    names = [f"{first}{i}" for i in range(3000)]
    chain = forest([(name, names[i - 1] if i else "", True) for i, name in enumerate(names)])
    down = [(i, ()) for i in reversed(range(3000))]
    assert [(v.row, v.parts) for v in chosen(chain.view())] == [(i, ("gdn",)) for i in range(2999)] + down
    ring = forest([(name, names[i - 1], True) for i, name in enumerate(names)])
    assert [(v.row, v.parts) for v in chosen(ring.view())] == [(i, ()) for i in range(3000)]
    assert chosen(ring.view(), {1234}) == []


def expected(view: View, kept: set[int]) -> list[tuple[int, tuple[str, ...]]]:
    """The same by the words of the module, looking at everything again for each victim."""
    there = {i for i in range(len(view.rows)) if view.alive[i]}
    newest = {view.rows["key"][i].tobytes(): i for i in sorted(there)}
    parent = {i: newest.get(view.rows["parent"][i].tobytes()) for i in there}
    snapshot = {i for i in there if any(name in STATE for name, _ in view.layouts[view.rows["layout"][i]])}

    def age(row: int) -> tuple[int, int]:
        return int(view.used[row]), row

    def children(row: int) -> list[int]:
        return [i for i in there if parent[i] == row]

    def is_followed(row: int) -> bool:
        path = [row]
        while len(below := children(path[-1])) == 1:
            if below[0] in path:
                return False
            path.append(below[0])
        return bool(snapshot & set(path[1:]))

    def needed() -> set[int]:
        found: set[int] = set()
        for row in kept & there:
            at: int | None = row
            while at is not None and at not in found:
                found.add(at)
                at = parent[at]
        return found

    found = [(row, ("gdn",)) for row in sorted(snapshot - kept, key=age) if is_followed(row)]
    while ends := [row for row in there - kept if not children(row)]:
        there.remove(row := min(ends, key=age))
        found.append((row, ()))
    return found + [(row, ()) for row in sorted(there - needed(), key=age)]


NODE = st.tuples(
    st.integers(0, 16),  # name, mostly its own
    st.integers(-1, 16),  # parent's name, if there is one
    st.booleans(),  # has a snapshot
    st.integers(0, 3),  # when it was used
    st.sampled_from([True, True, True, True, False]),  # is there
)


@given(st.lists(NODE, max_size=16), st.sets(st.integers(0, 15), max_size=3), st.booleans(), st.booleans())
def test_every_victim_of_any_graph_is_the_one_of_a_plain_model(
    nodes: list[tuple[int, int, bool, int, bool]], kept: set[int], copies: bool, alike: bool
) -> None:
    first = "shared bytes " if alike else "n"
    edges = [
        (f"{first}{name if copies else i}", f"{first}{parent}" if parent >= 0 else "", snapshot)
        for i, (name, parent, snapshot, _, _) in enumerate(nodes)
    ]
    view = forest(edges).view()
    used = np.array([node[3] for node in nodes], np.uint64)
    view = replace(view, used=used, alive=np.array([node[4] for node in nodes], bool))
    found = chosen(view, kept)
    assert [(v.row, v.parts) for v in found] == expected(view, kept)
    assert {v.key for v in found} <= {row["key"].tobytes() for row in view.rows}


@given(
    st.lists(st.tuples(st.integers(-1, 30), st.booleans()), max_size=25),
    st.sets(st.integers(0, 24), max_size=4),
)
def test_what_is_left_is_whole_chains_at_every_moment(nodes: list[tuple[int, bool]], kept: set[int]) -> None:
    names = [f"n{i}" for i in range(len(nodes))]
    edges = [(names[i], names[parent] if 0 <= parent < i else "", s) for i, (parent, s) in enumerate(nodes)]
    parents = {i: parent for i, (parent, _) in enumerate(nodes) if 0 <= parent < i}
    there = set(range(len(nodes)))
    given_up = chosen(forest(edges).view(), kept)
    assert len({(v.row, v.parts) for v in given_up}) == len(given_up)
    for victim in given_up:
        assert victim.row not in kept
        if victim.parts:
            children = [i for i, parent in parents.items() if parent == victim.row]
            assert len(children) == 1
        else:
            there.discard(victim.row)
            assert all(parents.get(i, -1) == -1 or parents[i] in there for i in there)
    needed = {row for row in kept if row < len(nodes)}
    for row in list(needed):
        while row in parents:
            row = parents[row]
            needed.add(row)
    assert there == needed
