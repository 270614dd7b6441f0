"""The width policy that follows a mean of accepted draft tokens."""

from dataclasses import dataclass, field, replace

from penny_spec.adaptive.slots import Slots
from penny_spec.adaptive.step import Step


@dataclass(frozen=True)
class EmaSlot:
    """What `Ema` knows of one batch-size slot: its width, mean accepted tokens, and forwards seen."""

    width: int
    mean: float
    forwards: int = 0


@dataclass(frozen=True)
class Ema:
    """Width from an exponential mean of accepted draft tokens, with hysteresis.

    The rule of the reference (its section 3.0) and of stock SGLang's adaptive steps: after `warmup` forwards and then
    every `interval`, go down while the mean is at most *next lower candidate* - 0.5 + `down`; if nothing went
    down, go up while the mean is above *current candidate* - 0.5 + `up`. Each batch-size slot keeps its own
    mean, which starts one below its width. Stock's two more options, a candidate of 0 and a ceiling, are not here.

    Attributes:
        slots: candidates by batch size.
        launch: first width, where a slot has it as a candidate.
        alpha: weight of the newest forward in the mean.
        interval: forwards between two decisions.
        warmup: forwards before the first.
        down: draft tokens added to the threshold for going down; negative holds a width longer.
        up: draft tokens added to the threshold for going up; positive holds a width longer.
    """

    slots: Slots = field(default_factory=Slots)
    launch: int = 7
    alpha: float = 0.2
    interval: int = 5
    warmup: int = 10
    down: float = -0.25
    up: float = 0.0

    def __post_init__(self) -> None:
        if not 0 < self.alpha <= 1 or self.interval < 1 or self.warmup < 0:
            raise ValueError(
                f"alpha {self.alpha}, interval {self.interval} and warmup {self.warmup} do not make a mean; alpha must "
                "be above 0 and at most 1, interval at least 1 and warmup at least 0."
            )

    @property
    def name(self) -> str:
        """`ema`."""
        return "ema"

    @property
    def widths(self) -> tuple[int, ...]:
        """Every candidate, rising."""
        return self.slots.widths()

    def start(self) -> tuple[EmaSlot, ...]:
        """Return a slot for each pair of `slots`."""
        return tuple(EmaSlot(width, width - 1.0) for width in self.slots.starts(self.launch))

    def observe(self, state: tuple[EmaSlot, ...], step: Step) -> tuple[EmaSlot, ...]:
        """Return the state after a forward; only the slot of its batch size changes."""
        index = self.slots.index(step.batch_size)
        slot = state[index]
        mean = (1 - self.alpha) * slot.mean + self.alpha * sum(step.accepted) / step.batch_size
        slot = replace(slot, mean=mean, forwards=slot.forwards + 1)
        since = slot.forwards - self.warmup
        if since > 0 and since % self.interval == 0:
            slot = replace(slot, width=self._decide(slot, self.slots.floors[index][1]))
        return (*state[:index], slot, *state[index + 1 :])

    def width(self, state: tuple[EmaSlot, ...], batch_size: int) -> int:
        """Return the width of the batch size's slot."""
        return state[self.slots.index(batch_size)].width

    def _decide(self, slot: EmaSlot, widths: tuple[int, ...]) -> int:
        start = at = widths.index(slot.width)
        while at > 0 and slot.mean <= widths[at - 1] - 0.5 + self.down:
            at -= 1
        while start <= at < len(widths) - 1 and slot.mean > widths[at] - 0.5 + self.up:
            at += 1
        return widths[at]
