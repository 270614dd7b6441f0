"""A conversation as turns: what is added before each request, and the answer that the history keeps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

Message = Mapping[str, Any]
"""A message in the form of the protocol."""


@dataclass(frozen=True)
class Turn:
    """One request.

    Attributes:
        added: messages that come before it.
        reply: what stands in the history for its answer; None behind the last turn of a recording.
    """

    added: tuple[Message, ...]
    reply: Message | None


@dataclass(frozen=True)
class Session:
    """A conversation.

    Attributes:
        name: of it.
        turns: in order.
        tools: offered in every request, in the form of the protocol; may be empty.
    """

    name: str
    turns: tuple[Turn, ...]
    tools: tuple[Mapping[str, Any], ...] = ()

    def histories(self) -> Iterator[list[Message]]:
        """The messages of each request."""
        history: list[Message] = []
        for turn in self.turns:
            history.extend(turn.added)
            yield list(history)
            if turn.reply is not None:
                history.append(turn.reply)
