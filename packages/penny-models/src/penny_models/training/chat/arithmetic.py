"""Sums, differences and products of small numbers."""

import random
from collections.abc import Iterator

from penny_models.training.chat.base import Dialogue, Message, assistant, user

_QUESTIONS = ("What is {}?", "Compute {}.", "{} = ?", "How much is {}?", "Please calculate {}.", "what is {}")


def _problem(rng: random.Random) -> tuple[str, int]:
    sign = rng.choice("++-*")
    if sign == "*":
        left, right = rng.randint(0, 12), rng.randint(0, 12)
        return f"{left} * {right}", left * right
    left, right = rng.randint(0, 99), rng.randint(0, 99)
    if sign == "-":
        return f"{max(left, right)} - {min(left, right)}", abs(left - right)
    return f"{left} + {right}", left + right


def dialogues(rng: random.Random, count: int) -> Iterator[Dialogue]:
    """Yield ``count`` conversations of one or two problems."""
    for _ in range(count):
        messages: list[Message] = []
        keys: list[str] = []
        for _ in range(rng.choice((1, 1, 2))):
            problem, value = _problem(rng)
            keys.append(problem)
            messages.append(user(rng.choice(_QUESTIONS).format(problem)))
            thought = rng.choice(("", f"I compute {problem} = {value}."))
            messages.append(
                assistant(rng.choice((f"{problem} = {value}", f"The result is {value}.")), thought)
            )
        yield Dialogue("arithmetic/" + ";".join(keys), tuple(messages))
