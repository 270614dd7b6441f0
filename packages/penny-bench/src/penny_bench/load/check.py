"""Something that was asked of a reply."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Check:
    """One thing that a reply should do.

    Attributes:
        case: the case that it belongs to.
        name: what was asked, in a few words.
        passed: whether it holds; None where a person must judge.
        detail: what was found, as a sentence; "" where the name says it all.
        points: what it earned.
        of: what it could have earned; 0 for a check that must hold but earns nothing.
    """

    case: str
    name: str
    passed: bool | None
    detail: str = ""
    points: float = 0.0
    of: float = 0.0
