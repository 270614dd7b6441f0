"""The width policy that expects, from the draft's own confidence, how far a chain will get."""

from bisect import bisect_right
from dataclasses import dataclass, field, replace

from penny_spec.adaptive.slots import Slots
from penny_spec.adaptive.step import Step, StepCost
from penny_spec.adaptive.survival import Survival


@dataclass(frozen=True)
class ConfidenceSlot:
    """What `Confidence` knows of one batch-size slot.

    Attributes:
        width: the current width.
        chains: by bucket of confidence, how far chains got.
        recent: the buckets of the newest chains, newest last.
        forwards: forwards seen.
        since: forwards since the last switch.
        rising: whether the last switch went up; None before the first.
        grace: forwards that a switch now has to wait after the last one.
    """

    width: int
    chains: tuple[Survival, ...]
    recent: tuple[int, ...]
    forwards: int
    since: int
    rising: bool | None
    grace: int


@dataclass(frozen=True)
class Confidence:
    """Width with the most expected tokens for each millisecond, (1 + E) / time, by the draft's confidence.

    The rule of the reference after 3.0: chains are put into buckets by the draft's top-1 probability of its
    first token. E, the expected accepted tokens, is exact for widths up to the current one and continues beyond it with
    the hazard at the boundary times a bias (`Survival.expected`). A switch has to gain more than a margin, a
    larger one for going up, and to wait for a grace after the last switch; going back soon doubles the grace.

    The reference does not say how buckets become one figure and what ends the doubling. Here E is the mean over the
    buckets of the newest `window` chains, and a switch that reverses the one before within twice the grace counts as
    going back; any other returns to the first grace.

    Attributes:
        slots: candidates by batch size.
        launch: first width, where a slot has it as a candidate.
        cost: time of a step.
        edges: lower bounds of the buckets but the first, rising.
        tail_bias: factor of the hazard beyond the current width.
        margin: gain that a switch down needs, 0.05 is 5 %.
        up_margin: gain that a switch up needs.
        grace: forwards between two switches.
        grace_limit: where the doubling ends.
        alpha: weight of the newest chain.
        warmup: forwards before the first decision.
        interval: forwards between two decisions.
        window: chains whose confidence counts.
    """

    slots: Slots = field(default_factory=Slots)
    launch: int = 7
    cost: StepCost = field(default_factory=StepCost)
    edges: tuple[float, ...] = (0.8, 0.95, 0.99, 0.999)
    tail_bias: float = 0.9
    margin: float = 0.05
    up_margin: float = 0.30
    grace: int = 20
    grace_limit: int = 320
    alpha: float = 0.05
    warmup: int = 15
    interval: int = 4
    window: int = 16

    def __post_init__(self) -> None:
        if not 0 < self.alpha <= 1 or min(self.interval, self.window) < 1 or min(self.warmup, self.grace) < 0:
            raise ValueError(
                f"alpha {self.alpha}, interval {self.interval}, window {self.window}, warmup {self.warmup} and grace "
                f"{self.grace} do not fit; alpha must be above 0 and at most 1, interval and window at least 1, "
                "warmup and grace at least 0."
            )
        if list(self.edges) != sorted(set(self.edges)) or not all(0 < edge <= 1 for edge in self.edges):
            raise ValueError(
                f"The edges {list(self.edges)} are no buckets; give rising probabilities above 0."
            )

    @property
    def name(self) -> str:
        """`confidence`."""
        return "confidence"

    @property
    def widths(self) -> tuple[int, ...]:
        """Every candidate, rising."""
        return self.slots.widths()

    def start(self) -> tuple[ConfidenceSlot, ...]:
        """Return a slot for each pair of `slots`."""
        chains = tuple(
            (Survival.unknown(widths[-1]),) * (len(self.edges) + 1) for _, widths in self.slots.floors
        )
        return tuple(
            ConfidenceSlot(width, chains[index], (), 0, 0, None, self.grace)
            for index, width in enumerate(self.slots.starts(self.launch))
        )

    def observe(self, state: tuple[ConfidenceSlot, ...], step: Step) -> tuple[ConfidenceSlot, ...]:
        """Return the state after a forward; only the slot of its batch size changes.

        A forward that was still running at another width when the slot switched counts for the positions it had.
        """
        index = self.slots.index(step.batch_size)
        slot = state[index]
        chains, recent = list(slot.chains), slot.recent
        for accepted, top1 in zip(step.accepted, step.top1, strict=True):
            bucket = bisect_right(self.edges, top1)
            chains[bucket] = chains[bucket].observe(accepted, step.width, self.alpha)
            recent = (*recent, bucket)[-self.window :]
        slot = replace(
            slot, chains=tuple(chains), recent=recent, forwards=slot.forwards + 1, since=slot.since + 1
        )
        ready = slot.forwards > self.warmup and (slot.forwards - self.warmup) % self.interval == 0
        if ready and (slot.rising is None or slot.since >= slot.grace):
            slot = self._decide(slot, self.slots.floors[index][1])
        return (*state[:index], slot, *state[index + 1 :])

    def width(self, state: tuple[ConfidenceSlot, ...], batch_size: int) -> int:
        """Return the width of the batch size's slot."""
        return state[self.slots.index(batch_size)].width

    def expected(self, slot: ConfidenceSlot, width: int) -> float:
        """Return the accepted tokens that a slot expects of a chain of `width` tokens.

        Raises:
            ValueError: the slot has observed nothing.
        """
        if not slot.recent:
            raise ValueError("The slot has observed no chain; observe a step of its batch size first.")
        each = {bucket: slot.chains[bucket].expected(width, self.tail_bias) for bucket in set(slot.recent)}
        return sum(each[bucket] for bucket in slot.recent) / len(slot.recent)

    def _decide(self, slot: ConfidenceSlot, widths: tuple[int, ...]) -> ConfidenceSlot:
        rates = {width: (1.0 + self.expected(slot, width)) / self.cost(width) for width in widths}
        best = max(widths, key=lambda width: rates[width])
        rising = best > slot.width
        needed = 1.0 + (self.up_margin if rising else self.margin)
        if best == slot.width or rates[best] <= needed * rates[slot.width]:
            return slot
        back = slot.rising is not None and slot.rising != rising and slot.since <= 2 * slot.grace
        return replace(
            slot,
            width=best,
            # At the new width the positions above the old boundary are learnt anew.
            chains=tuple(chain.forget_above(min(slot.width, best)) for chain in slot.chains),
            since=0,
            rising=rising,
            grace=min(2 * slot.grace, self.grace_limit) if back else self.grace,
        )
