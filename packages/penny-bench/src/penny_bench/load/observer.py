"""Who is told what a run does, such as the live display."""

from typing import Protocol

from penny_bench.client import StreamRecord


class Observer(Protocol):
    """Told of every step. Its methods must be cheap: they run between the reads of streams."""

    def phase(self, name: str, total: int | None = None) -> None:
        """A phase begins; `total` requests will be sent, None if that is open."""
        ...

    def sent(self, prompt_tokens: int | None = None) -> None:
        """A request is about to be sent, with a prompt of so many tokens where that is known."""
        ...

    def tokens(self, n: int) -> None:
        """An event of a stream brought `n` tokens."""
        ...

    def ended(self, record: StreamRecord) -> None:
        """A request has ended."""
        ...


class Silent:
    """Tells nobody."""

    def phase(self, name: str, total: int | None = None) -> None:
        """See `Observer`."""

    def sent(self, prompt_tokens: int | None = None) -> None:
        """See `Observer`."""

    def tokens(self, n: int) -> None:
        """See `Observer`."""

    def ended(self, record: StreamRecord) -> None:
        """See `Observer`."""
