"""What every width policy is, and the one that never changes."""

from dataclasses import dataclass
from typing import Protocol, TypeVar

from penny_spec.adaptive.step import Step

State = TypeVar("State")


class Policy(Protocol[State]):
    """Chooses how many tokens to draft, from what was verified so far.

    A policy is a set of constants; all it learns is in a state that its methods take and return and never change.
    A server may therefore switch where it can (at the boundary of a decode forward), and a recording replays exactly.
    """

    @property
    def name(self) -> str:
        """One word for tables."""

    @property
    def widths(self) -> tuple[int, ...]:
        """Every width that the policy may choose, rising."""

    def start(self) -> State:
        """Return the state before the first step."""

    def observe(self, state: State, step: Step) -> State:
        """Return the state after a verify forward."""

    def width(self, state: State, batch_size: int) -> int:
        """Return the number of tokens to draft in the next forward of `batch_size` requests."""


@dataclass(frozen=True)
class Fixed:
    """The policy of one width, whatever happens."""

    always: int

    @property
    def name(self) -> str:
        """`fixed-` and the width."""
        return f"fixed-{self.always}"

    @property
    def widths(self) -> tuple[int, ...]:
        """The one width."""
        return (self.always,)

    def start(self) -> None:
        """Return None: there is nothing to remember."""

    def observe(self, state: None, step: Step) -> None:
        """Return None."""

    def width(self, state: None, batch_size: int) -> int:
        """Return the width."""
        return self.always
