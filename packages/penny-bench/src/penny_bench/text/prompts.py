"""Prompts made from the passages that ship with the package."""

from functools import cache
from importlib.resources import files

INSTRUCTION = "Continue this text in its own language.\n\n"


@cache
def passages() -> tuple[str, ...]:
    """The passages, sorted by file name."""
    folder = files("penny_bench.text").joinpath("passages")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".txt"))
    return tuple(folder.joinpath(name).read_text(encoding="utf-8").strip() for name in names)


def prompt(characters: int, seed: int, number: int) -> str:
    """Prompt `number` of a measurement, `characters` long and never shorter than its first line.

    The first line differs between all prompts of all seeds, so that no prefix cache knows what follows.
    Behind it come the passages, beginning with another one for each number.
    """
    head = f"No. {number} of series {seed}. {INSTRUCTION}"
    texts = passages()
    body = ""
    while len(head) + len(body) < characters:
        body += texts[number % len(texts)] + "\n\n"
        number += 1
    return head + body[: max(0, characters - len(head))]
