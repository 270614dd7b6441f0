"""A reasoning case as data: what is asked, and the rubric by which the reply earns points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

POINTS = 4
"""What each item of a rubric can earn."""

Form = Literal["number", "text", "list", "set", "groups", "time", "moment", "truth"]


@dataclass(frozen=True)
class Key:
    """A key of the JSON object that ends a reply.

    Attributes:
        name: of the key.
        value: the right one.
        form: how it is compared. number: within the tolerance; text: without regard to case; list: in order; set:
            in any order; groups: a list of sets; time: of the day, to the second; moment: with its offset;
            truth: true or false.
        tolerance: for numbers.
    """

    name: str
    value: Any
    form: Form = "number"
    tolerance: float = 0.0


@dataclass(frozen=True)
class Item:
    """An item of a rubric, worth 0 to 4 points.

    Attributes:
        name: what it is about.
        keys: keys that a program compares; the points are the share of them that is right.
        guide: for a person, what earns 4, 2 and 0 points; "" where a program decides.
    """

    name: str
    keys: tuple[Key, ...] = ()
    guide: str = ""


@dataclass(frozen=True)
class Question:
    """One request.

    Attributes:
        words: what the user says, without the request for the JSON object.
        items: its rubric.
    """

    words: str
    items: tuple[Item, ...]

    @property
    def prompt(self) -> str:
        """What the user says, with the form of the JSON object that ends the reply."""
        keys = [key for item in self.items for key in item.keys]
        wanted = "\n".join(f"- {key.name}: {_SHAPES[key.form]}" for key in keys)
        return (
            f"{self.words}\n\nExplain how you come to your answer, briefly. End the reply with one JSON "
            f"object in a fenced block, with just these keys:\n{wanted}"
        )


@dataclass(frozen=True)
class ReasoningCase:
    """A case.

    Attributes:
        name: with its number, such as `C3 production`.
        questions: its requests, in order.
        history: messages before the first.
    """

    name: str
    questions: tuple[Question, ...]
    history: tuple[Mapping[str, Any], ...] = ()


_SHAPES: dict[Form, str] = {
    "number": "a number without unit",
    "text": "a text",
    "list": "a list, in order",
    "set": "a list",
    "groups": "a list of lists, in order",
    "time": "a time of the day such as 18:05:00",
    "moment": "a moment in UTC such as 2030-01-31T18:05:00Z",
    "truth": "true or false",
}
