"""The test of ``benchmarks/sampling_lossless.py``: right draws pass it, and each way to draw wrongly fails it."""

from __future__ import annotations

import importlib.util
import itertools
import random
from collections import Counter
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
import torch

BENCHMARKS = Path(__file__).parents[1] / "benchmarks"
pytestmark = pytest.mark.skipif(not BENCHMARKS.is_dir(), reason="benchmarks do not travel with the tests")
DRAWS = 20_000


@pytest.fixture(scope="module")
def script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sampling_lossless", BENCHMARKS / "sampling_lossless.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def model(ids: torch.Tensor) -> SimpleNamespace:
    """The next token's logits depend on the last token only: token t has weight 1 + (t - last) mod 6."""
    weights = 1.0 + (torch.arange(6) - ids[:, -1:]) % 6
    return SimpleNamespace(logits=weights.log()[:, None])


@pytest.fixture(scope="module")
def law(script) -> dict:
    return script.exact(model, [0], 3)


def draw(law: dict, rng: random.Random, changed=lambda answer, rng: answer) -> Counter:
    answers = rng.choices(list(law), list(law.values()), k=DRAWS)
    return Counter(changed(answer, rng) for answer in answers)


def test_the_law_is_the_product_of_four_renormalised_weights(law) -> None:
    """After 0 the best four are 5, 4, 3, 2 with weights 6, 5, 4, 3 of 18; after 5 they are 4, 3, 2, 1."""
    assert len(law) == 64
    assert sum(law.values()) == pytest.approx(1)
    assert law[5, 4, 3] == pytest.approx((6 / 18) ** 3)
    assert law[2, 5, 1] == pytest.approx(
        (3 / 18) * (4 / 18) * (3 / 18)
    )  # after 2: 1, 0, 5, 4; after 5: 4, 3, 2, 1


def test_cells_expect_enough_and_hold_every_answer_once(script, law) -> None:
    groups = script.cells(law, 500)
    assert all(expected >= script.LEAST for _, expected in groups)
    assert sorted(itertools.chain.from_iterable(group for group, _ in groups)) == sorted(law)
    assert sum(expected for _, expected in groups) == pytest.approx(500)
    assert len(groups) < len(law)


def test_right_draws_pass(script, law) -> None:
    values = [script.chi_square(law, draw(law, random.Random(seed)))["p"] for seed in range(40)]
    assert min(script.holm(values)) > 0.01
    assert 0.3 < sum(values) / 40 < 0.7  # p of a right test is uniform: 0.5 with a standard error of 0.046


@pytest.mark.parametrize(
    "changed",
    [
        lambda answer, rng: answer if rng.random() > 0.03 else (5, *answer[1:]),
        lambda answer, rng: answer if rng.random() > 0.06 else (*answer[:2], (answer[1] - 1) % 6),
        lambda answer, rng: answer if answer[1] != 4 or rng.random() > 0.1 else (answer[0], 3, answer[2]),
    ],
    ids=["argmax-first", "argmax-last", "a-refused-draft"],
)
def test_a_few_percent_of_wrong_draws_fail(script, law, changed) -> None:
    assert script.chi_square(law, draw(law, random.Random(1), changed))["p"] < 1e-4


def test_one_impossible_answer_fails(script, law) -> None:
    counts = draw(law, random.Random(2))
    counts[0, 0, 0] += 1
    found = script.chi_square(law, counts)
    assert (found["outside"], found["p"]) == (1, 0.0)


def test_holm_by_hand(script) -> None:
    """0.01 of four times 4, 0.02 times 3, 0.03 times 2 (not under the one before), 0.5 times 1."""
    assert script.holm([0.03, 0.01, 0.5, 0.02]) == pytest.approx([0.06, 0.04, 0.5, 0.06])
