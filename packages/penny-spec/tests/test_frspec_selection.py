"""The selection rule, mixtures, hold-out, coverage and tiling against values worked by hand."""

import numpy as np
import pytest

from penny_spec.frspec import CoverageError, InputError, Labels, check_floor, measure, select_ids, tiling
from penny_spec.frspec.holdout import is_held_out
from penny_spec.frspec.mixture import mix


def test_reference_cases() -> None:
    assert select_ids({8: 10, 7: 10, 4: 2, 1: 99}, range(12), {11}, 6, 2) == [0, 1, 4, 7, 8, 11]
    assert select_ids({}, [0, 2, 4, 6, 9], {9}, 4, 1) == [0, 2, 4, 9]


def test_between_equals_the_lower_id_wins_in_any_order() -> None:
    # One row is left after base 0 and special 9; ids 3, 5 and 7 are equally frequent.
    for counts in ({3: 4, 5: 4, 7: 4}, {7: 4, 5: 4, 3: 4}):
        assert select_ids(counts, [9, 7, 5, 3, 1], [9], 2, 0) == [3, 9]


def test_ids_that_the_tokenizer_lacks_are_ignored() -> None:
    assert select_ids({100: 9, 2: 1}, range(4), [], 1, 0) == [2]


@pytest.mark.parametrize(
    ("special", "size", "base", "sentence"),
    [
        ({12}, 6, 2, "Special id 12 is not an id of the tokenizer"),
        ({11}, 3, 4, "The base is 4 lowest ids; choose 0 to 3"),
        ({11}, 3, -1, "The base is -1 lowest ids"),
        ({11}, 13, 2, "A map of 13 rows was asked for; choose 1 to 12"),
        (set(), 0, 0, "A map of 0 rows was asked for"),
        ({10, 11}, 3, 2, "2 lowest ids and 2 special ids do not fit into 3 rows"),
    ],
)
def test_errors(special: set[int], size: int, base: int, sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        select_ids({}, range(12), special, size, base)


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_a_weight_that_is_no_count_is_refused(weight: float) -> None:
    with pytest.raises(InputError, match="Id 3 has the count"):
        select_ids({3: weight}, range(12), [], 2, 0)


def test_mixture_by_hand() -> None:
    # Corpus frequencies 3/4, 1/4, 0; choices 0, 1/10, 9/10; a quarter of the weight on the choices.
    mixed = mix(np.array([3, 1, 0]), np.array([0, 1, 9]), 0.25)
    assert mixed.tolist() == pytest.approx([0.5625, 0.2125, 0.225])
    assert mix(np.array([3, 1, 0]), np.zeros(3, dtype=np.int64), 0.0).tolist() == [0.75, 0.25, 0.0]


def test_mixture_refuses_a_weight_on_nothing() -> None:
    with pytest.raises(InputError, match=r"weight of the choice record is 0\.5"):
        mix(np.array([1]), np.array([0]), 0.5)
    with pytest.raises(InputError, match=r"weight of the corpus is 0\.5"):
        mix(np.array([0]), np.array([1]), 0.5)
    with pytest.raises(InputError, match=r"choices is 1\.5"):
        mix(np.array([1]), np.array([1]), 1.5)


def test_hold_out_reads_the_hash() -> None:
    # SHA-256 of "abc" starts ba78 (FIPS 180-4 example): 47736 / 65536 = 0.7284.
    assert is_held_out(b"abc", 0.729)
    assert not is_held_out(b"abc", 0.728)
    assert not is_held_out(b"abc", 0.0)
    assert is_held_out(b"abc", 1.0)


HELD_OUT = {
    Labels("en", "code"): np.array([6, 4, 0, 0]),  # the map {0, 1} holds 10 of 10
    Labels("en", "prose"): np.array([6, 0, 2, 0]),  # 6 of 8
    Labels("zh", "prose"): np.array([1, 0, 0, 9]),  # 1 of 10
}


def test_coverage_by_hand() -> None:
    groups = [(g.kind, g.name, g.covered, g.tokens) for g in measure([0, 1], HELD_OUT)]
    assert groups == [
        ("all", "all", 17, 28),
        ("language", "en", 16, 18),
        ("language", "zh", 1, 10),
        ("domain", "code", 10, 10),
        ("domain", "prose", 7, 18),
    ]


def test_an_id_above_the_counts_covers_nothing() -> None:
    assert measure([0, 9], {Labels(): np.array([1, 1])})[0].share == 0.5


def test_floor_names_each_group_under_it() -> None:
    with pytest.raises(CoverageError) as refusal:
        check_floor(measure([0, 1], HELD_OUT), 0.6)
    assert "language zh of the corpus 0.1000 (1 of 10 tokens)" in str(refusal.value)
    assert "domain prose of the corpus 0.3889 (7 of 18 tokens)" in str(refusal.value)
    assert "language en" not in str(refusal.value)


def test_floor_refuses_a_group_that_nobody_measured() -> None:
    groups = measure([0], {Labels("en"): np.array([5]), Labels("ru"): np.array([0])})
    with pytest.raises(CoverageError, match="language ru of the corpus has no held-out tokens to measure"):
        check_floor(groups, 0.5)
    warnings = check_floor(groups, 0.0)
    assert "Coverage of language ru of the corpus rests on 0 held-out tokens only." in warnings


def test_a_floor_that_is_just_reached_holds() -> None:
    check_floor(measure([0], {Labels(): np.array([3, 1])}), 0.75)
    with pytest.raises(CoverageError):
        check_floor(measure([0], {Labels(): np.array([3, 1])}), 0.7501)


def test_tiling_names_the_nearest_multiples() -> None:
    assert tiling(65536).warning is None
    assert tiling(49152).warning is None
    found = tiling(50000)  # 390 tiles are 49,920 rows
    assert (found.left, found.below, found.above) == (80, 49920, 50048)
    assert found.warning is not None
    assert "49,920 or 50,048" in found.warning
    assert "128-row tile" in found.warning
    assert (tiling(100).below, tiling(100).above) == (0, 128)
