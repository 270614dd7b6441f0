"""Which rows two sides have in common, and which of them were asked for."""

from __future__ import annotations

from collections.abc import Sequence

from penny_bench.compare.restart import Restart
from penny_bench.compare.value import Place, Value
from penny_bench.errors import BenchError


def select(restarts: Sequence[Restart], patterns: Sequence[str]) -> list[Place]:
    """The places that are asked for, in the order of the first restart that has them.

    Args:
        restarts: of both sides.
        patterns: as for `Place.matches`; without any, the headline numbers.

    Raises:
        BenchError: a pattern names nothing.
    """
    known: dict[Place, Value] = {}
    for restart in restarts:
        for place, value in restart.values.items():
            known.setdefault(place, value)
    for pattern in patterns:
        if not any(place.matches(pattern) for place in known):
            keys = dict.fromkeys(place.metric for place in known)
            raise BenchError(
                f"No metric matches {pattern!r}; there are {', '.join(keys)}, and whole names such as "
                f"{next(iter(known))}."
            )
    return [
        place
        for place, value in known.items()
        if (any(place.matches(pattern) for pattern in patterns) if patterns else value.headline)
    ]


def in_all(restarts: Sequence[Restart], places: Sequence[Place]) -> list[Place]:
    """Those of the places that every restart has."""
    return [place for place in places if all(place in restart.values for restart in restarts)]


def left_out(
    a: Sequence[Restart], b: Sequence[Restart], places: Sequence[Place]
) -> tuple[list[str], list[str]]:
    """Sentences about the places that not every restart has: faults and notes.

    That a metric is missing on a whole side, or with its phase, is a property of what was run; that it is missing
    in some restarts that did run its phase is a fault, if it is one that can be better or worse.
    """
    both = [*a, *b]
    common = set(in_all(both, places))
    faults: list[str] = []
    missing: dict[str, None] = {}
    for place in places:
        if place in common:
            continue
        phase = (place.workload, place.phase)
        without = [
            restart.name
            for side in (a, b)
            if any(place in restart.values for restart in side)
            for restart in side
            if place not in restart.values and phase in restart.phases
        ]
        first = next(restart.values[place] for restart in both if place in restart.values)
        if without and first.metric.better:
            faults.append(f"{without[0]} has no {place}, though other restarts of its side have it.")
        else:
            whole = not all(phase in restart.phases for restart in both)
            missing["/".join(phase) if whole else str(place)] = None
    return faults, [f"Not in every restart, so left out: {', '.join(missing)}."] if missing else []
