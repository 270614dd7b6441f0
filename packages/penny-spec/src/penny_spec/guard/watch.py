"""The guard: three sequential tests on accepted counts, and the alarm they raise."""

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Literal

from penny_spec.guard.expectation import Expectation
from penny_spec.guard.scores import all_score, low_scores, none_score

Alarm = Literal["ok", "low", "pinned"]


@dataclass(frozen=True)
class Watched:
    """What the guard knows after some verifications.

    Attributes:
        alarm: `ok`; `low`, acceptance is far below the expectation; `pinned`, it is stuck at one value. An alarm
            stays until a new state is started; only `low` can still become `pinned`.
        verifies: verifications of one request each, seen so far.
        tokens: tokens that these gave, with the target's own.
        length: running acceptance length, tokens for each verification over the calibrated positions.
        low: statistic of the test for low acceptance, nats.
        none: that of the run in which nothing was accepted.
        full: that of the run in which everything was accepted.
        requests: the first different requests of that last run.
        alarm_verifies: `verifies` when the alarm was raised first; None without one.
        alarm_tokens: `tokens` at that time.
    """

    alarm: Alarm = "ok"
    verifies: int = 0
    tokens: int = 0
    length: float = 0.0
    low: float = 0.0
    none: float = 0.0
    full: float = 0.0
    requests: tuple[int, ...] = ()
    alarm_verifies: int | None = None
    alarm_tokens: int | None = None


@dataclass(frozen=True)
class Guard:
    """Watches acceptance against an expectation that is a range.

    Three tests run side by side, each a sum of scores that starts again at 0:

    - `low`: CUSUM (Page, Biometrika 41, 1954) of the log-likelihood ratio between the lower edge of the
      expectation, less `margin`, and `cut` times those rates.
    - `pinned` at nothing (acceptance length stuck at 1.0): a run of verifications with no token accepted, too long even
      for the cut rates.
    - `pinned` at everything (acceptance rate stuck at 1.0): a run with all tokens accepted, too long for the upper edge
      plus `margin`, over at least `spans` requests (a text that repeats itself is accepted whole for long).

    Each test alarms at the threshold h = ln(3 * horizon / false_alarm). While acceptance stays within the expectation,
    exp(sum) from any start is a supermartingale, so by Ville's inequality it reaches exp(h) with probability at most
    exp(-h); there are at most `horizon` starts for each of three tests, so a healthy server sees an alarm within
    `horizon` verifications with probability at most `false_alarm`. What this needs is that, given the past, each
    verification accepts at least k tokens at least as often as the lower edge (and as seldom as the upper one): any
    mixture and order of the calibrated groups does. Text that is outside all groups does not.

    Attributes:
        expectation: the calibrated rates. Draft positions behind these are not looked at.
        false_alarm: probability of an alarm within `horizon` verifications of a healthy server, at most.
        horizon: verifications of one request.
        cut: factor of the rates that the test for `low` is tuned to; half by default.
        margin: how much worse than the worst calibrated group, and better than the best, still is healthy: 0.3 takes
            the lower rates times 0.7, and 0.3 of the distance of the upper rates to 1. Verifications of one text are
            not independent: a hard request stays below its group's rates for long. On recorded texts of tiny-27b 0.1
            raised an alarm, and 0.3 came no nearer than about half of the threshold (`benchmarks/guard_alarms.py`).
        spans: requests that a run of full acceptance must span.
        memory: verifications that `length` remembers.
    """

    expectation: Expectation
    false_alarm: float = 0.01
    horizon: int = 100_000
    cut: float = 0.5
    margin: float = 0.3
    spans: int = 4
    memory: int = 500

    def __post_init__(self) -> None:
        for name, value in (("false_alarm", self.false_alarm), ("cut", self.cut), ("margin", self.margin)):
            if not 0.0 < value < 1.0:
                raise ValueError(f"{name} is {value}; it must lie between 0 and 1.")
        if min(self.horizon, self.spans, self.memory) < 1:
            raise ValueError(
                f"horizon {self.horizon}, spans {self.spans} and memory {self.memory} must each be at least 1."
            )

    @cached_property
    def threshold(self) -> float:
        """Where each test alarms, in nats."""
        return math.log(3 * self.horizon / self.false_alarm)

    @cached_property
    def lowest(self) -> tuple[float, ...]:
        """Rates by position below which acceptance counts as unhealthy."""
        return tuple(rate * (1.0 - self.margin) for rate in self.expectation.lowest)

    @cached_property
    def highest(self) -> tuple[float, ...]:
        """Rates by position above which acceptance counts as unhealthy."""
        return tuple(1.0 - (1.0 - rate) * (1.0 - self.margin) for rate in self.expectation.highest)

    @cached_property
    def low_table(self) -> tuple[tuple[float, ...], ...]:
        """Scores of the test for `low`: `low_table[w][a]` for a accepted of w tokens, w from 0."""
        return tuple(low_scores(self.lowest[:width], self.cut) for width in range(len(self.lowest) + 1))

    @cached_property
    def none_score(self) -> float:
        """Score of a verification without an accepted token."""
        return none_score(self.lowest[0] * self.cut)

    @cached_property
    def full_scores(self) -> tuple[float, ...]:
        """Scores of a verification with all tokens accepted, by width from 0."""
        return tuple(all_score(self.highest[:width]) for width in range(len(self.highest) + 1))

    def start(self) -> Watched:
        """Return the state before the first verification."""
        return Watched()

    def observe(self, state: Watched, accepted: int, width: int, request: int) -> Watched:
        """Return the state after one verification of one request.

        Args:
            state: the state before it.
            accepted: draft tokens accepted, 0 to `width`.
            width: draft tokens verified; 0 says nothing of the draft and changes only the token count.
            request: any number that is the request's own.

        Raises:
            ValueError: `accepted` is not between 0 and `width`.
        """
        if not 0 <= accepted <= width:
            raise ValueError(f"{accepted} of {width} draft tokens cannot be accepted; pass 0 to {width}.")
        tokens = state.tokens + accepted + 1
        if width == 0:
            return replace(state, tokens=tokens)
        width = min(width, self.expectation.positions)
        accepted = min(accepted, width)
        verifies = state.verifies + 1
        requests = state.requests
        if accepted < width:
            requests = ()
        elif request not in requests and len(requests) < self.spans:
            requests = (*requests, request)
        weight = max(1.0 / self.memory, 1.0 / verifies)
        found = replace(
            state,
            verifies=verifies,
            tokens=tokens,
            length=state.length + weight * (accepted + 1 - state.length),
            low=max(0.0, state.low + self.low_table[width][accepted]),
            none=state.none + self.none_score if accepted == 0 else 0.0,
            full=state.full + self.full_scores[width] if accepted == width else 0.0,
            requests=requests,
        )
        alarm = self._alarm(found)
        if alarm == state.alarm:
            return found
        if state.alarm != "ok":
            return replace(found, alarm=alarm)
        return replace(found, alarm=alarm, alarm_verifies=verifies, alarm_tokens=tokens)

    def sentence(self, state: Watched) -> str:
        """Return the state as a sentence for a log."""
        low, high = (1.0 + _length(rates) for rates in (self.expectation.lowest, self.expectation.highest))
        expected = f"{low:.2f} to {high:.2f} are expected over {self.expectation.positions} draft positions"
        if state.alarm == "ok":
            return f"Acceptance length is {state.length:.2f}; {expected}."
        at = f"since token {state.alarm_tokens} (verification {state.alarm_verifies})"
        if state.alarm == "low":
            return (
                f"Acceptance length is {state.length:.2f}, far below the expectation {at}: {expected}. Check that the "
                "token map fits the language served, and that draft and target are the calibrated pair."
            )
        return (
            f"Acceptance is pinned {at}: its length is {state.length:.2f}, and {expected}. Check the draft's weights "
            "and precision if nothing is accepted, and the verification if everything is."
        )

    def _alarm(self, state: Watched) -> Alarm:
        full = state.full >= self.threshold and len(state.requests) >= self.spans
        if state.alarm == "pinned" or state.none >= self.threshold or full:
            return "pinned"
        return "low" if state.alarm == "low" or state.low >= self.threshold else "ok"


def _length(rates: tuple[float, ...]) -> float:
    total, reached = 0.0, 1.0
    for rate in rates:
        reached *= rate
        total += reached
    return total
