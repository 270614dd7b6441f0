"""Permutation tests: p-values that assume nothing but that the labels A and B could have been exchanged."""

import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from penny_bench.stats.ratio import logs

EXACT = 20_000
"""Most arrangements that are all looked at; beyond, as many are drawn."""
TIE = 1e-12
"""Relative difference below which two arrangements count as equal, since sums of floats depend on order."""


@dataclass(frozen=True)
class Permutation:
    """Result of a permutation test.

    Attributes:
        p: two-sided p-value.
        exact: whether all arrangements were looked at.
        least: the smallest p-value that so many restarts can give at all.
    """

    p: float
    exact: bool
    least: float


def sign_flip_test(a: Sequence[float], b: Sequence[float], seed: int = 0) -> Permutation:
    """Paired test: each pair's log ratio could as well have had the other sign. 2^n arrangements.

    Args:
        a, b: positive values; equal places are a pair.
        seed: of the draws beyond 14 pairs.

    Raises:
        ValueError: sides of unequal length or empty, or a value that has no log.

    Source: Fisher, "The Design of Experiments" (1935), section 21; for the drawn p-value, Phipson and Smyth,
    "Permutation p-values should never be zero", Stat. Appl. Genet. Mol. Biol. 9 (2010).
    """
    x, y = logs(a), logs(b)
    if x.size != y.size or not x.size:
        raise ValueError(f"There are {x.size} and {y.size} restarts; pairs take equal numbers, at least one.")
    d = y - x
    return _result(abs(_times(_signs(d.size, seed), d)), abs(float(d.sum())), 2**d.size, 2)


def two_sample_test(a: Sequence[float], b: Sequence[float], seed: int = 0) -> Permutation:
    """Two-sample test of the difference of mean logs: any restarts could have been those of A.

    Args:
        a, b: positive values, at least one a side.
        seed: of the draws where there are over 20,000 arrangements, such as 9 restarts a side.

    Raises:
        ValueError: an empty side, or a value that has no log.

    Source: Pitman, "Significance tests which may be applied to samples from any populations", Suppl. J. R.
    Stat. Soc. 4 (1937); for the drawn p-value, Phipson and Smyth (2010).
    """
    x, y = logs(a), logs(b)
    if not x.size or not y.size:
        raise ValueError(f"There are {x.size} and {y.size} restarts; a comparison takes one a side.")
    both = np.concatenate([x, y])
    sums = _times(_members(both.size, x.size, seed), both)
    difference = (both.sum() - sums) / y.size - sums / x.size
    symmetric = 2 if x.size == y.size else 1
    return _result(abs(difference), abs(float(y.mean() - x.mean())), math.comb(both.size, x.size), symmetric)


def _times(arrangements: NDArray[np.float64], values: NDArray[np.float64]) -> NDArray[np.float64]:
    # Not `@`: the threads of a BLAS take 60 times as long for so little on a machine with other work.
    products: NDArray[np.float64] = np.einsum("ij,j->i", arrangements, values)
    return products


@lru_cache(maxsize=2)
def _signs(pairs: int, seed: int) -> NDArray[np.float64]:
    """One row of signs for each arrangement; kept, since every row of a comparison asks for the same."""
    if 2**pairs <= EXACT:
        return np.array(list(itertools.product((1.0, -1.0), repeat=pairs)))
    return np.random.default_rng(seed).choice((1.0, -1.0), (EXACT, pairs))


@lru_cache(maxsize=2)
def _members(both: int, first: int, seed: int) -> NDArray[np.float64]:
    """For each arrangement, 1 for each restart that it counts among the first side, else 0."""
    if math.comb(both, first) <= EXACT:
        chosen = np.array(list(itertools.combinations(range(both), first)))
    else:
        order = np.tile(np.arange(both), (EXACT, 1))
        chosen = np.random.default_rng(seed).permuted(order, axis=1)[:, :first]
    members = np.zeros((len(chosen), both))
    np.put_along_axis(members, chosen, 1.0, axis=1)
    return members


def _result(statistics: NDArray[np.float64], seen: float, count: int, extreme: int) -> Permutation:
    reached = int((statistics >= seen - TIE * max(1.0, seen)).sum())
    if count <= EXACT:
        return Permutation(reached / count, True, extreme / count)
    return Permutation((reached + 1) / (EXACT + 1), False, 1 / (EXACT + 1))
