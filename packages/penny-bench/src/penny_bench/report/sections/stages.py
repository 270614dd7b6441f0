"""What a request went through, one stage behind the other."""

from __future__ import annotations

from dataclasses import dataclass

from penny_bench.report.entry import Entry

ORDER = ("queue", "prefill", "to the first token", "post-prefill", "reasoning", "content", "decode", "end")
"""All stages in order. `decode` stands for reasoning and content where neither is told apart."""


@dataclass(frozen=True)
class Stage:
    """One stage of a request; times in seconds since it was sent."""

    name: str
    start: float
    end: float


def stages(entry: Entry) -> list[Stage]:
    """The stages that are known. The server's own spans are set from the moment the request was sent.

    Without spans everything up to the first token is one stage; with them, `to the first token` is what is
    left of it: the way there and back, and tokenising. `post-prefill` is the server's time behind its prefill
    and so lies beside reasoning and content, which are the client's. Of a server that does not tell its queue,
    the prefill is set to end at the first token.
    """
    if entry.sent is None:
        return []
    first, last = _since(entry, entry.first_token), _since(entry, entry.last_token)
    ended = _since(entry, entry.ended)
    found, at = _server(entry, first)
    if first is None:
        rest = ended if ended is not None else at
        return [*found, Stage("to the first token", at, rest)] if rest > at else found
    if first > at:
        found.append(Stage("to the first token", at, first))
    reasoning, content = _since(entry, entry.first_reasoning), _since(entry, entry.first_content)
    end = first if last is None else last
    if reasoning is not None:
        found.append(Stage("reasoning", reasoning, end if content is None else content))
    if content is not None:
        found.append(Stage("content", content, end))
    if reasoning is None and content is None:
        found.append(Stage("decode", first, end))
    if ended is not None and ended > end:
        found.append(Stage("end", end, ended))
    return found


def _server(entry: Entry, first: float | None) -> tuple[list[Stage], float]:
    """The server's spans, and the end of what they tell of the time before the first token."""
    spans = entry.spans or {}
    queue, prefill, rest = (spans.get(name) for name in ("queue", "prefill", "post_prefill"))
    found: list[Stage] = []
    at = 0.0
    if queue:
        found.append(Stage("queue", 0.0, queue))
        at = queue
    elif queue is None and prefill and first is not None and first > prefill:
        at = first - prefill
        found.append(Stage("to the first token", 0.0, at))
    if prefill:
        found.append(Stage("prefill", at, at + prefill))
        at += prefill
    if rest:
        found.append(Stage("post-prefill", at, at + rest))
    return found, at


def _since(entry: Entry, t: float | None) -> float | None:
    return None if t is None or entry.sent is None else t - entry.sent
