"""The state of one conversation."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from penny_server.chat.client import Message, Sampling


@dataclass
class Session:
    """Model, system prompt, history and sampling; commands and questions change it."""

    model: str
    sampling: Sampling
    system: str = ""
    history: list[Message] = field(default_factory=list)

    def messages(self, question: str) -> list[Message]:
        """What to send for ``question``."""
        system = [{"role": "system", "content": self.system}] if self.system else []
        return [*system, *self.history, {"role": "user", "content": question}]

    def keep(self, question: str, answer: str) -> None:
        """Adds a turn to the history. An answer that was stopped is kept as far as it came."""
        self.history.append({"role": "user", "content": question})
        self.history.append({"role": "assistant", "content": answer})

    def reset(self) -> None:
        """Forgets the history, not the system prompt."""
        self.history.clear()

    def set_think(self, think: bool) -> None:
        """Asks the model to think first, or not to."""
        self.sampling = replace(self.sampling, think=think)
