"""The shape of a store, against a model of dictionaries that says the same one bundle at a time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from penny_cache.inspect import shape
from penny_cache.store import Survey
from penny_cache.store.index import ROW


def key(number: int) -> bytes:
    """Keys that end in zeros, begin with zeros and differ in one byte; never all zeros."""
    return (
        bytes([number % 7, 0, 0, number // 7 + 1]) + bytes(28)
        if number % 2
        else bytes(31) + bytes([number + 1])
    )


def survey(parents: dict[int, int | None]) -> Survey:
    rows = np.zeros(len(parents), ROW)
    for at, (number, parent) in enumerate(parents.items()):
        rows[at]["key"] = key(number)
        rows[at]["parent"] = bytes(32) if parent is None else key(parent)
    return Survey(rows, ((("kv", 1),),))


@given(st.dictionaries(st.integers(0, 40), st.none() | st.integers(0, 50), max_size=30))
def test_shape_is_what_a_model_says(parents: dict[int, int | None]) -> None:
    numbers = list(parents)

    def above(number: int) -> list[int]:
        """The chain up from a bundle, itself first; it ends where a loop closes."""
        chain = [number]
        while (parent := parents[chain[-1]]) in parents and parent not in chain:
            assert parent is not None
            chain.append(parent)
        return chain

    def loops(number: int) -> bool:
        return parents[above(number)[-1]] in parents

    found = shape(survey(parents))
    children = {n: [c for c in numbers if parents[c] == n] for n in numbers}
    starts = [n for n in numbers if parents[n] is None]
    holes = [n for n in numbers if parents[n] is not None and parents[n] not in parents]
    assert [numbers[i] for i in found.starts] == starts
    assert [numbers[i] for i in found.holes] == holes
    assert [numbers[i] for i in found.tails] == [n for n in numbers if not children[n]]
    assert [numbers[i] for i in found.branch_points] == [n for n in numbers if len(children[n]) > 1]
    assert found.children.tolist() == [len(children[n]) for n in numbers]
    assert found.depth.tolist() == [0 if loops(n) else len(above(n)) for n in numbers]
    assert found.stranded == sum(above(n)[-1] in holes for n in numbers if not loops(n))
    paths = [[numbers[i] for i in path] for path in found.paths()]
    assert sorted(n for path in paths for n in path) == sorted(numbers)
    seen: set[int] = set()
    for path in paths:
        if not loops(path[0]):
            parent = parents[path[0]]
            assert parent not in parents or (parent in seen and len(children[parent]) > 1)
            assert all(children[a] == [b] for a, b in pairwise(path))
            assert len(children[path[-1]]) != 1
        seen.update(path)


def test_a_long_chain_and_what_hangs_behind_a_hole() -> None:
    chain: dict[int, int | None] = {n: n - 1 for n in range(1, 35)}  # the parent of 1 is not there
    found = shape(survey(chain))
    assert (len(found.holes), found.stranded, int(found.depth.max())) == (1, 34, 34)
    assert [path.tolist() for path in found.paths()] == [list(range(34))]
