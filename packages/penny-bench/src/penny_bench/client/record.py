"""What is known of one stream when it is over. All times are seconds on the clock of the group it ran in."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

FailureKind = Literal[
    "connection", "timeout", "http", "protocol", "server", "no_usage", "no_tokens", "interrupted"
]


@dataclass(frozen=True)
class Failure:
    """Why a stream does not count.

    Attributes:
        kind: what sort of failure it was.
        message: a sentence.
        status: HTTP status, for the kind `http`.
    """

    kind: FailureKind
    message: str
    status: int | None = None


@dataclass(frozen=True)
class Arrival:
    """One event that brought tokens.

    Attributes:
        t: when it came, s.
        tokens: completion tokens so far as the server counted them, None where it did not say.
    """

    t: float
    tokens: int | None


@dataclass(frozen=True)
class ToolCall:
    """A tool call as its parts came: name, arguments as text (JSON if the model kept to it), and id."""

    name: str
    arguments: str
    id: str = ""


@dataclass(frozen=True)
class Reply:
    """What the model said, joined from the parts of the stream; each "" or () where there was none."""

    content: str = ""
    reasoning: str = ""
    tool_calls: tuple[ToolCall, ...] = ()


@dataclass(frozen=True)
class CachedTokens:
    """Prompt tokens by the tier that they came from; None for a tier the server does not have.

    Source: SGLang's `cached_tokens_details`, asked for with `return_cached_tokens_details`.
    """

    device: int
    host: int
    storage: int | None = None


@dataclass(frozen=True)
class Speculation:
    """Speculative decoding of one request or, summed, of many.

    Attributes:
        verify: steps in which the model verified drafts.
        accepted, proposed: draft tokens.
        histogram: steps by how many draft tokens they accepted, from 0; empty where the server has none.

    Source: SGLang's `spec_tokens_details`, asked for with `return_spec_tokens_details`.
    """

    verify: int
    accepted: int
    proposed: int
    histogram: tuple[int, ...] = ()

    @property
    def acceptance_length(self) -> float:
        """Tokens of a verify step: the accepted drafts and the one that the model adds."""
        return 1 + self.accepted / self.verify


@dataclass(frozen=True)
class Spans:
    """Where the server says that the time of one request went, s; None where it does not say.

    Attributes:
        queue: from its arrival to the start of the first forward pass.
        prefill: from there to the end of the initial prefill. Prefill rates are defined on this span.
        post_prefill: from there to the end.
        source: who said so, such as `sglang /metrics` or `llama.cpp timings`.
    """

    queue: float | None
    prefill: float | None
    post_prefill: float | None
    source: str


@dataclass(frozen=True, kw_only=True)
class StreamRecord:
    """One request and its stream.

    Attributes:
        sent: just before the request was sent, s.
        ended: when the stream was over or failed, s.
        arrivals: events that brought tokens of any kind (content, reasoning, tool calls), in order. The last
            one is the event that ended the choice if only then all tokens had come.
        first_byte: first byte of the answer's body, s; None if none came.
        first_reasoning: first reasoning text, s; None where there was none.
        first_answer: first content or tool call, s; None where there was only reasoning.
        prompt_tokens, cached_tokens, output_tokens, reasoning_tokens: the server's usage; None if not
            reported.
        finish_reason: as the server said it.
        failure: why the stream must be left out of every rate and latency, or None.
        reply: what was said, where the timeline was told to keep it.
        cached: cached prompt tokens by tier, where the server tells.
        speculation: acceptance of drafts, where the server tells.
        spans: the server's own times, where it tells; never mixed with the client's.
        by_tokenizer: whether `output_tokens` is an estimate: the reply counted by a tokenizer.
    """

    sent: float
    ended: float
    arrivals: tuple[Arrival, ...] = ()
    first_byte: float | None = None
    first_reasoning: float | None = None
    first_answer: float | None = None
    prompt_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    reasoning_tokens: int | None = None
    finish_reason: str | None = None
    failure: Failure | None = None
    reply: Reply | None = None
    cached: CachedTokens | None = None
    speculation: Speculation | None = None
    spans: Spans | None = None
    by_tokenizer: bool = False

    def shifted(self, by: float) -> StreamRecord:
        """The same on a clock that reads `by` seconds more."""

        def moved(t: float | None) -> float | None:
            return None if t is None else t + by

        return replace(
            self,
            sent=self.sent + by,
            ended=self.ended + by,
            arrivals=tuple(Arrival(arrival.t + by, arrival.tokens) for arrival in self.arrivals),
            first_byte=moved(self.first_byte),
            first_reasoning=moved(self.first_reasoning),
            first_answer=moved(self.first_answer),
        )

    @property
    def estimated(self) -> bool:
        """Whether the server never counted: `output_tokens` is None, or the estimate of a tokenizer."""
        return self.by_tokenizer or (self.failure is not None and self.failure.kind == "no_usage")

    @property
    def ttft(self) -> float | None:
        """Time to the first token of any kind, s; None if none came or the stream failed."""
        return None if self.failure or not self.arrivals else self.arrivals[0].t - self.sent

    @property
    def time_to_answer(self) -> float | None:
        """Time to the first token that is not reasoning, s."""
        return None if self.failure or self.first_answer is None else self.first_answer - self.sent

    @property
    def first_tokens(self) -> int:
        """Tokens that came in the first moment: the server's running count then, 1 where it keeps none.

        A server that was held up sends several events at once; they are one arrival then, as far as rates go.
        """
        first = [arrival.tokens or 1 for arrival in self.arrivals if arrival.t == self.arrivals[0].t]
        return max(first, default=1)
