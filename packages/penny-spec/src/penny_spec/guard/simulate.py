"""Many guarded servers at once: accepted counts drawn from rates, and the first alarm of each, with numpy."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from penny_spec.guard.watch import Guard

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Alarms:
    """The first alarm of each server: the index of its verification, -1 where there is none.

    `first` is the earlier of `low` and `pinned`. All int64 `(servers,)`.
    """

    first: Ints
    low: Ints
    pinned: Ints


def draw(rates: Sequence[float], shape: tuple[int, int], generator: np.random.Generator) -> Ints:
    """Draw independent accepted counts, int64 of `shape` (servers, verifications), from rates by position."""
    coins = generator.random(shape)
    counts = np.zeros(shape, dtype=np.int64)
    for reached in np.cumprod(rates):
        counts += coins < reached
    return counts


def first_alarms(guard: Guard, accepted: Ints, request_verifies: int = 100) -> Alarms:
    """Return when a guard would alarm first; the closed form of `Guard.observe` over all servers.

    Args:
        guard: its expectation's number of positions is the width of every verification.
        accepted: int64 `(servers, verifications)`.
        request_verifies: verifications of each request; requests come one after another.
    """
    width = guard.expectation.positions
    sums = np.cumsum(np.asarray(guard.low_table[width])[accepted], axis=1)
    floor = np.minimum.accumulate(np.minimum(sums, 0.0), axis=1)
    low = _first(sums - floor >= guard.threshold)
    index = np.arange(accepted.shape[1])
    nothing = _run(accepted == 0, index)
    full = _run(accepted == width, index)
    spans = index // request_verifies - (index - full + 1) // request_verifies + 1
    pinned = _first(
        (nothing * guard.none_score >= guard.threshold)
        | ((full * guard.full_scores[width] >= guard.threshold) & (full > 0) & (spans >= guard.spans))
    )
    never = accepted.shape[1]
    first = np.minimum(np.where(low < 0, never, low), np.where(pinned < 0, never, pinned))
    return Alarms(np.where(first == never, -1, first), low, pinned)


def _run(flags: NDArray[np.bool_], index: Ints) -> Ints:
    last: Ints = np.maximum.accumulate(np.where(flags, -1, index), axis=1)
    return index - last


def _first(flags: NDArray[np.bool_]) -> Ints:
    return np.where(flags.any(axis=1), flags.argmax(axis=1), -1)
