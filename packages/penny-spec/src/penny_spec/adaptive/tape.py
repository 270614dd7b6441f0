"""A trace made ready for replay: what each step would have given at any width."""

from dataclasses import dataclass

from penny_spec.adaptive.step import Step
from penny_spec.adaptive.trace import Trace


@dataclass(frozen=True)
class Gain:
    """What a step at some width gives: the step, the tokens it adds to the texts, and where the next one starts."""

    step: Step
    tokens: int
    after: int


@dataclass(frozen=True)
class Tape:
    """The forwards of a trace, all recorded at its widest width.

    Attributes:
        forwards: each as it was recorded.
        widest: their width, draft tokens.
        ends: with every position recorded, for each forward the index behind its text; else None.
    """

    forwards: tuple[Step, ...]
    widest: int
    ends: tuple[int, ...] | None

    def at(self, index: int, width: int) -> Gain:
        """Return what forward `index` gives at a width of at most `widest`: min(accepted, width) of each chain."""
        full = self.forwards[index]
        step = Step(width, tuple(min(count, width) for count in full.accepted), full.top1)
        if self.ends is None:
            return Gain(step, step.tokens, index + 1)
        after = min(index + step.tokens, self.ends[index])
        return Gain(step, after - index, after)


def tape(trace: Trace) -> Tape:
    """Make a trace ready for replay.

    Raises:
        ValueError: steps of several widths, a forward with lines missing, or every position recorded of batches.
    """
    widest = max(record.width for record in trace.records)
    narrow = next((n for n, record in enumerate(trace.records, start=1) if record.width < widest), None)
    if narrow is not None:
        raise ValueError(
            f"Step {narrow} was recorded at width {trace.records[narrow - 1].width} and another at {widest}. What a "
            "narrow step would have accepted with more draft tokens was not recorded, so a replay needs a trace "
            "recorded at the widest width throughout; switch the adaptive width off while recording."
        )
    if trace.every_position:
        return Tape(tuple(_alone(trace)), widest, _ends([record.request for record in trace.records]))
    return Tape(tuple(_forwards(trace)), widest, None)


def check_widths(found: Tape, widths: tuple[int, ...], name: str) -> None:
    """Raise `ValueError` if a policy may choose a width that the trace cannot answer for."""
    if max(widths) > found.widest:
        raise ValueError(
            f"Policy {name} may draft {max(widths)} tokens and the trace was recorded at width {found.widest}; what "
            f"more drafts would have given is not in it. Record it at {max(widths)}, or give narrower candidates."
        )


def _alone(trace: Trace) -> list[Step]:
    for number, record in enumerate(trace.records, start=1):
        if record.batch != 1:
            raise ValueError(
                f"Step {number} is of a batch of {record.batch}; a trace of every position is of one request at a "
                "time. Write every_position false if these are the steps of a server."
            )
    return [Step(record.width, (record.accepted,), (record.top1,)) for record in trace.records]


def _ends(requests: list[int]) -> tuple[int, ...]:
    ends = [len(requests)] * len(requests)
    for index in range(len(requests) - 2, -1, -1):
        ends[index] = ends[index + 1] if requests[index] == requests[index + 1] else index + 1
    return tuple(ends)


def _forwards(trace: Trace) -> list[Step]:
    found: list[Step] = []
    start = 0
    while start < len(trace.records):
        batch = trace.records[start].batch
        group = trace.records[start : start + batch]
        if len({record.request for record in group}) < batch or any(
            record.batch != batch for record in group
        ):
            raise ValueError(
                f"Step {start + 1} starts a forward of {batch} requests, and the {len(group)} lines from there are not "
                f"{batch} different requests of such a forward; write the lines of one forward together."
            )
        counts, top1 = (tuple(record.accepted for record in group), tuple(record.top1 for record in group))
        found.append(Step(group[0].width, counts, top1))
        start += batch
    return found
