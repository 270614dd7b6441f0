"""The order in which the restarts of two sides are run."""

from typing import Literal


def abba(restarts: int) -> list[Literal["A", "B"]]:
    """A B B A A B B A ...: `restarts` of each side, of which each two neighbours (1-2, 3-4, ...) are a pair.

    Two pairs cancel a drift that is linear in time, such as a machine that warms up: A runs at the times 1
    and 4, B at 2 and 3, and both sums are 5. An odd number of pairs leaves the last one uncancelled.

    Raises:
        ValueError: fewer than one restart.
    """
    if restarts < 1:
        raise ValueError(f"restarts is {restarts}; give at least 1.")
    order: list[Literal["A", "B"]] = []
    for pair in range(restarts):
        order += ["A", "B"] if pair % 2 == 0 else ["B", "A"]
    return order
