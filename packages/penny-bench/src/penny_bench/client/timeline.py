"""Turns the events of one stream, with the times they came, into its record."""

from collections.abc import Callable
from typing import Any

from penny_bench.client.record import Arrival, Failure, FailureKind, StreamRecord
from penny_bench.client.told import told_cached, told_spans, told_speculation
from penny_bench.client.transcript import Transcript

_ANSWER = ("content", "tool_calls", "refusal")
_REASONING = ("reasoning_content", "reasoning")


class Timeline:
    """Feed it every event of a stream in order, then ask for the record. It never looks at a clock."""

    def __init__(
        self,
        sent: float,
        keep_reply: bool = False,
        on_tokens: Callable[[int], None] | None = None,
        count: Callable[[str], int] | None = None,
    ) -> None:
        """The request is sent at `sent`.

        Args:
            sent: s.
            keep_reply: whether to keep what is said.
            count: counts the reply if the server sends no usage; the record is then labelled as an estimate.
            on_tokens: told how many tokens an event brought, for a display; 1 where the server does not say.
        """
        self._sent = sent
        self._on_tokens = on_tokens
        self._keep_reply, self._count = keep_reply, count
        self._transcript = Transcript() if keep_reply or count else None
        self._told: dict[str, Any] = {}  # extensions of the protocol, by the names of the servers
        self._arrivals: list[Arrival] = []
        self._first_byte: float | None = None
        self._first_reasoning: float | None = None
        self._first_answer: float | None = None
        self._usage: dict[str, Any] = {}
        self._running: int | None = None  # the server's count before its last one
        self._finish: tuple[float, str] | None = None
        self._complete = False
        self._failure: Failure | None = None

    def start(self, t: float) -> None:
        """Take note that the request was written at `t` seconds; until then `sent` holds."""
        self._sent = t

    def byte(self, t: float) -> None:
        """Take note that bytes of the body came at `t` seconds."""
        if self._first_byte is None:
            self._first_byte = t

    def event(self, t: float, payload: Any) -> None:
        """Take in one event that came at `t` seconds: a chat completion chunk, decoded from JSON."""
        if not isinstance(payload, dict):
            self.fail("protocol", f"The server sent an event that is no JSON object: {str(payload)[:80]!r}.")
            return
        if payload.get("error"):
            self.fail(
                "server", f"The server ended the stream with an error: {_error_text(payload['error'])}."
            )
            return
        usage = payload.get("usage")
        if isinstance(usage, dict):
            self._usage = usage
        for key in ("sglext", "timings"):
            if isinstance(payload.get(key), dict):
                self._told[key] = payload[key]
        choices = payload.get("choices")
        if not choices:
            self._complete = self._complete or isinstance(usage, dict)
        elif isinstance(choices, list) and isinstance(choices[0], dict):
            self._choice(t, choices[0], _count(usage, "completion_tokens"))
        else:
            self.fail("protocol", f"The server sent choices that are no objects: {str(choices)[:80]}.")

    def done(self) -> None:
        """Take in the `[DONE]` marker."""
        self._complete = True

    def fail(self, kind: FailureKind, message: str, status: int | None = None) -> None:
        """Mark the stream as failed; the first failure stands."""
        self._failure = self._failure or Failure(kind, message, status)

    def record(self, ended: float) -> StreamRecord:
        """The record of a stream that was over at `ended` seconds."""
        output = _count(self._usage, "completion_tokens")
        estimate = self._estimate() if output is None else None
        if estimate is not None:
            output = estimate
        arrivals = self._arrivals
        if not self._complete and self._finish is None:
            self.fail("protocol", "The stream was cut off: no finish_reason, closing usage or [DONE] came.")
        elif (
            self._finish
            and arrivals
            and (self._running is None or (output is not None and output > self._running))
        ):
            # Tokens without text (special ones, half characters) may have come up to the end of the choice.
            arrivals = [*arrivals, Arrival(self._finish[0], output)]
        if output is None:
            self.fail(
                "no_usage",
                "The stream carried no usage, so its tokens cannot be counted. Start the server with "
                "usage in streams (stream_options.include_usage) switched on.",
            )
        elif not arrivals:
            self.fail("no_tokens", f"The stream brought no token, though the server counted {output}.")
        details = self._usage.get("prompt_tokens_details") or {}
        reasoning = self._usage.get("completion_tokens_details") or self._usage
        return StreamRecord(
            sent=self._sent,
            ended=ended,
            arrivals=tuple(arrivals),
            first_byte=self._first_byte,
            first_reasoning=self._first_reasoning,
            first_answer=self._first_answer,
            prompt_tokens=_count(self._usage, "prompt_tokens"),
            cached_tokens=_count(details, "cached_tokens"),
            output_tokens=output,
            reasoning_tokens=_count(reasoning, "reasoning_tokens"),
            finish_reason=self._finish[1] if self._finish else None,
            failure=self._failure,
            reply=self._transcript.reply() if self._transcript and self._keep_reply else None,
            cached=told_cached(self._told),
            speculation=told_speculation(self._told),
            spans=told_spans(self._told),
            by_tokenizer=estimate is not None,
        )

    def _estimate(self) -> int | None:
        """Tokens of what was said, by the tokenizer; None without one, or where nothing was said."""
        if self._count is None or self._transcript is None:
            return None
        reply = self._transcript.reply()
        calls = "".join(f"{call.name}{call.arguments}" for call in reply.tool_calls)
        return self._count(reply.reasoning + reply.content + calls) or None

    def _choice(self, t: float, choice: dict[str, Any], count: int | None) -> None:
        delta = choice.get("delta")
        if not isinstance(delta, dict):
            delta = {}
        finish = choice.get("finish_reason")
        answer = any(delta.get(key) for key in _ANSWER)
        reasoning = any(delta.get(key) for key in _REASONING)
        # A first count beside the finish_reason is the total of a server that keeps no running count.
        running = count if self._running is not None or not finish or not self._arrivals else None
        grown = running is not None and running > (self._running or 0)
        if answer or reasoning or grown:
            self._arrivals.append(Arrival(t, running))
            if self._on_tokens:
                self._on_tokens(1 if running is None else running - (self._running or 0))
        if running is not None:
            self._running = running
        if reasoning and self._first_reasoning is None:
            self._first_reasoning = t
        if answer and self._first_answer is None:
            self._first_answer = t
        if finish:
            self._finish = (t, str(finish))
        if self._transcript:
            self._transcript.add(delta)


def _count(usage: Any, key: str) -> int | None:
    value = usage.get(key) if isinstance(usage, dict) else None
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _error_text(error: Any) -> str:
    message = error.get("message") if isinstance(error, dict) else error
    return str(message or error)[:200].rstrip(".")
