"""What a mock does wrong with every n-th request."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal, get_args

from penny_bench.errors import BenchError
from penny_bench.mock.script import Cut, Refusal, Script, Step

Kind = Literal["429", "503", "cut", "stall", "malformed", "no_usage", "half_open"]

FORMS = "429:10,503:10,cut:10,stall:10,malformed:10,no_usage:10,half_open:10"
"""All that `parse_faults` takes, for help texts and messages."""


@dataclass(frozen=True)
class Fault:
    """Requests `every`, 2 x `every`, ... have it, counted from 1.

    Attributes:
        kind: refused with 429 or 503; connection dropped (`cut`) or nothing further sent (`stall`) in the middle
            of the stream; an event that is no JSON (`malformed`); the stream without any usage; or the request
            accepted and never answered (`half_open`).
        every: 1 for all requests.
    """

    kind: Kind
    every: int

    def strikes(self, number: int) -> bool:
        """Whether request `number`, from 0, has it."""
        return (number + 1) % self.every == 0

    def apply(self, steps: list[Step | Cut]) -> Script:
        """The steps with the fault in them. `no_usage` is for who makes the steps."""
        middle = len(steps) // 2
        match self.kind:
            case "429":
                return Refusal(429, "Too many requests; this is what the mock was told to say.")
            case "503":
                return Refusal(503, "Overloaded; this is what the mock was told to say.")
            case "cut":
                return [*steps[:middle], Cut()]
            case "stall":
                return [*steps[:middle], Step(inf, b"")]
            case "malformed":
                return [*steps[:middle], Step(0.0, b'data: {"choices": [\n\n'), *steps[middle:]]
            case "half_open":
                return [Step(inf, b"")]
            case "no_usage":
                return steps


def parse_faults(text: str) -> tuple[Fault, ...]:
    """The faults of `429:10,cut:7`. Where several strike one request, the first of them counts.

    Raises:
        BenchError: a part is none.
    """
    faults: list[Fault] = []
    for part in filter(None, text.split(",")):
        kind, _, every = part.partition(":")
        if kind not in get_args(Kind) or not every.isdecimal() or int(every) < 1:
            raise BenchError(f"--faults has the part {part!r}; the forms are {FORMS}.")
        faults.append(Fault(kind, int(every)))  # type: ignore[arg-type]  # checked in the line above
    return tuple(faults)
