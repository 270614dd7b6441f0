"""The steps that a server makes on the texts of a trace."""

from penny_spec.adaptive.tape import check_widths, tape
from penny_spec.adaptive.trace import Record, Trace


def served(trace: Trace, width: int) -> Trace:
    """Return the trace that a server which always drafts `width` tokens would have recorded on the same texts.

    Args:
        trace: One of every position.
        width: At most that of the trace, draft tokens.

    Raises:
        ValueError: the trace has only its own steps, or is narrower than `width`.
    """
    if not trace.every_position:
        raise ValueError(
            "The trace has the steps of its own width only, not every position of its texts; steps of another width "
            "would start at positions that are not in it. Record every position."
        )
    ready = tape(trace)
    check_widths(ready, (width,), f"fixed-{width}")
    records: list[Record] = []
    index = 0
    while index < len(trace.records):
        found, gain = trace.records[index], ready.at(index, width)
        records.append(Record(found.request, width, gain.step.accepted[0], found.top1, 1))
        index = gain.after
    return Trace(tuple(records), False, trace.origin)
