"""Replay of a recorded trace: what a policy, every fixed width and the oracle would have made of it."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeVar

from penny_spec.adaptive.base import Fixed, Policy
from penny_spec.adaptive.oracle import best_widths
from penny_spec.adaptive.step import StepCost
from penny_spec.adaptive.tape import Tape, check_widths, tape
from penny_spec.adaptive.trace import Trace

State = TypeVar("State")


@dataclass(frozen=True)
class Outcome:
    """What one way of choosing widths made of a trace.

    Attributes:
        name: of the policy, `fixed-N`, or `oracle`.
        tokens: gained by all requests.
        milliseconds: of all steps, by the cost model.
        steps: forwards.
        switches: how often a forward's width differs from that of the forward before.
        widths: forwards by width.
    """

    name: str
    tokens: int
    milliseconds: float
    steps: int
    switches: int
    widths: dict[int, int]

    @property
    def rate(self) -> float:
        """Tokens for each second of the cost model."""
        return 1000.0 * self.tokens / self.milliseconds


@dataclass(frozen=True)
class Comparison:
    """Policies, every fixed width and the oracle on one trace."""

    policies: tuple[Outcome, ...]
    fixed: tuple[Outcome, ...]
    oracle: Outcome

    @property
    def best_fixed(self) -> Outcome:
        """The fixed width with the highest rate; of equals the narrowest."""
        return max(self.fixed, key=lambda outcome: outcome.rate)

    def of_best_fixed(self, outcome: Outcome) -> float:
        """Return an outcome's rate as a share of the best fixed width's."""
        return outcome.rate / self.best_fixed.rate

    def of_oracle(self, outcome: Outcome) -> float:
        """Return an outcome's rate as a share of the oracle's."""
        return outcome.rate / self.oracle.rate


def replay(trace: Trace, policy: Policy[State], cost: StepCost) -> Outcome:
    """Let a policy choose the widths of a recorded trace.

    Args:
        trace: Recorded at its widest width throughout, which is at least the policy's widest.
        policy: Sees each step as it would have been at the width that it chose, with the probability that the trace
            has for that very step.
        cost: The time of a step.

    Raises:
        ValueError: the trace has steps of several widths, or a candidate of the policy is wider than it.
    """
    return _play(tape(trace), policy, cost)


def compare(trace: Trace, policies: Sequence[Policy[Any]], cost: StepCost) -> Comparison:
    """Replay policies, every fixed width from 1 to the trace's, and the oracle. Raises as `replay`."""
    ready = tape(trace)
    played = tuple(_play(ready, policy, cost) for policy in policies)
    fixed = tuple(_play(ready, Fixed(width), cost) for width in range(1, ready.widest + 1))
    return Comparison(played, fixed, _outcome("oracle", ready, best_widths(ready, cost), cost))


def _play(ready: Tape, policy: Policy[State], cost: StepCost) -> Outcome:
    check_widths(ready, policy.widths, policy.name)
    state = policy.start()
    chosen: list[tuple[int, int]] = []
    index = 0
    while index < len(ready.forwards):
        width = policy.width(state, ready.forwards[index].batch_size)
        gain = ready.at(index, width)
        chosen.append((index, width))
        state = policy.observe(state, gain.step)
        index = gain.after
    return _outcome(policy.name, ready, chosen, cost)


def _outcome(name: str, ready: Tape, chosen: list[tuple[int, int]], cost: StepCost) -> Outcome:
    widths = [width for _, width in chosen]
    return Outcome(
        name=name,
        tokens=sum(ready.at(index, width).tokens for index, width in chosen),
        milliseconds=sum(cost(width) for width in widths),
        steps=len(chosen),
        switches=sum(1 for before, after in pairwise(widths) if before != after),
        widths=dict(sorted(Counter(widths).items())),
    )
