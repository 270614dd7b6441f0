"""What the mock of the command line answers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from penny_bench.errors import BenchError
from penny_bench.mock.faults import Fault
from penny_bench.mock.script import Cut, Script, Step, token_script

Usage = Literal["asked", "final", "running", "none"]

CHARACTERS = 4
"""Of a prompt, for each token that the mock counts."""


@dataclass(frozen=True, kw_only=True)
class Program:
    """Gives the same stream to every request; call it with the number of the request and its body.

    Attributes:
        tokens: of an answer to a request that does not say `max_tokens`.
        per_chunk: tokens in an event.
        first: time from the request to the first token, beside that for the prompt, s.
        interval: from event to event, s.
        prefill_rate: of the prompt, tokens/s; None for at once.
        usage: running or final counts as the request asks in its `stream_options`, or one of them always, or none.
        reasoning: tokens of an answer that come first as reasoning.
        faults: see there.
    """

    tokens: int = 128
    per_chunk: int = 1
    first: float = 0.1
    interval: float = 0.02
    prefill_rate: float | None = None
    usage: Usage = "asked"
    reasoning: int = 0
    faults: tuple[Fault, ...] = ()

    def __post_init__(self) -> None:
        least = {"tokens": 1, "per_chunk": 1, "first": 0, "interval": 0, "reasoning": 0}
        for name, minimum in least.items():
            if not minimum <= getattr(self, name) < float("inf"):
                raise BenchError(f"{name} is {getattr(self, name)}; give at least {minimum}.")
        if self.prefill_rate is not None and not 0 < self.prefill_rate < float("inf"):
            raise BenchError(f"prefill_rate is {self.prefill_rate:g}; give tokens/s above 0.")

    def __call__(self, number: int, body: dict[str, Any]) -> Script:
        """The script for request `number`."""
        fault = next((fault for fault in self.faults if fault.strikes(number)), None)
        asked = body.get("max_completion_tokens") or body.get("max_tokens")
        tokens = asked if isinstance(asked, int) and asked > 0 else self.tokens
        usage = "none" if fault and fault.kind == "no_usage" else self._usage(body)
        prompt = _prompt_tokens(body)
        steps = _steps(self, tokens, usage, prompt)
        return fault.apply(steps) if fault else steps

    def _usage(self, body: dict[str, Any]) -> Literal["final", "running", "none"]:
        if self.usage != "asked":
            return self.usage
        options = body.get("stream_options") or {}
        if options.get("continuous_usage_stats"):
            return "running"
        return "final" if options.get("include_usage") else "none"


@lru_cache(maxsize=256)
def _steps(
    program: Program, tokens: int, usage: Literal["final", "running", "none"], prompt: int
) -> list[Step | Cut]:
    """Made once for requests that are alike: their bytes are ready when they are due."""
    return token_script(
        tokens=tokens,
        per_chunk=program.per_chunk,
        first=program.first + (prompt / program.prefill_rate if program.prefill_rate else 0.0),
        interval=program.interval,
        prompt_tokens=prompt,
        usage=usage,
        reasoning=program.reasoning,
    )


def _prompt_tokens(body: dict[str, Any]) -> int:
    messages = body.get("messages") or ()
    text = sum(len(str(message.get("content", ""))) for message in messages if isinstance(message, dict))
    return max(1, text // CHARACTERS)
