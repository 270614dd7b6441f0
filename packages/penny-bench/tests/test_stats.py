"""Summaries, against tables of Student's t and worked numbers."""

import math

import pytest

from penny_bench.stats import summarise


def test_by_hand() -> None:
    # Mean 4, s = sqrt((4 + 0 + 4) / 2) = 2, t(0.975, 2) = 4.302653 from the table.
    summary = summarise([2.0, 6.0, 4.0])
    assert summary is not None
    assert (summary.n, summary.median, summary.minimum, summary.maximum) == (3, 4.0, 2.0, 6.0)
    half = 4.302653 * 2 / math.sqrt(3)
    assert summary.low == pytest.approx(4 - half, abs=1e-5)
    assert summary.high == pytest.approx(4 + half, abs=1e-5)


def test_other_confidence() -> None:
    # Mean 0, s = sqrt(2), t(0.95, 1) = 6.313752.
    summary = summarise([-1.0, 1.0], confidence=0.9)
    assert summary is not None
    assert summary.high == pytest.approx(6.313752, abs=1e-5)


def test_few_values_and_gaps() -> None:
    assert summarise([]) is None
    assert summarise([None, None]) is None
    one = summarise([None, 5.0])
    assert one is not None
    assert (one.n, one.median, one.low, one.high) == (1, 5.0, None, None)


def test_refusals() -> None:
    with pytest.raises(ValueError, match="not all finite"):
        summarise([1.0, math.inf])
    with pytest.raises(ValueError, match="between 0 and 1"):
        summarise([1.0], confidence=95)
