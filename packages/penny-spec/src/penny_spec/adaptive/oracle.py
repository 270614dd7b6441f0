"""The best that any choice of widths could have done on a recorded trace, knowing it all beforehand."""

from penny_spec.adaptive.step import StepCost
from penny_spec.adaptive.tape import Tape


def best_widths(tape: Tape, cost: StepCost) -> list[tuple[int, int]]:
    """Return the steps (index of the forward, width) that give the most tokens for each millisecond.

    Where every position was recorded the tokens are given and the time is the shortest path through the texts (a
    dynamic programme from the end). Else every forward is one step, and the widths maximise the ratio of two sums: by
    Dinkelbach's method (Management Science 13, 1967), for a given rate each step takes the width with the largest
    tokens - rate * time, and the rate that comes out is tried next until it no longer grows.
    """
    return _recorded_steps(tape, cost) if tape.ends is None else _shortest(tape, cost)


def _shortest(tape: Tape, cost: StepCost) -> list[tuple[int, int]]:
    count = len(tape.forwards)
    left = [0.0] * (count + 1)
    chosen = [1] * count
    for index in range(count - 1, -1, -1):
        times = {
            width: cost(width) + left[tape.at(index, width).after] for width in range(1, tape.widest + 1)
        }
        chosen[index] = min(times, key=lambda width: times[width])
        left[index] = times[chosen[index]]
    path: list[tuple[int, int]] = []
    index = 0
    while index < count:
        path.append((index, chosen[index]))
        index = tape.at(index, chosen[index]).after
    return path


def _recorded_steps(tape: Tape, cost: StepCost) -> list[tuple[int, int]]:
    gains = [
        {width: tape.at(index, width).tokens for width in range(1, tape.widest + 1)}
        for index in range(len(tape.forwards))
    ]
    rate = 0.0
    while True:
        widths = [max(gain, key=lambda width: gain[width] - rate * cost(width)) for gain in gains]
        tokens = sum(gain[width] for gain, width in zip(gains, widths, strict=True))
        found = tokens / sum(cost(width) for width in widths)
        if found <= rate * (1 + 1e-12):
            return list(enumerate(widths))
        rate = found
