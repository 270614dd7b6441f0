"""Prompts made from the passages that ship with the package."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

INSTRUCTION = "Continue this text in its own language."
SAMPLE = 200
"""Characters of a passage that are enough to learn its tokens per character."""


@dataclass(frozen=True)
class Gauge:
    """How a server counts the text of prompts.

    Attributes:
        head: tokens of a prompt that has only its first line, chat template included.
        rates: tokens per character of each passage; languages differ tenfold.
    """

    head: float
    rates: tuple[float, ...]

    @classmethod
    def of(cls, head: int, samples: Sequence[int]) -> "Gauge":
        """From the prompt tokens that the server counted for `head_line` and for each of `sample_prompts`."""
        sizes = [min(SAMPLE, len(text)) for text in passages()]
        rates = tuple(max(n - head, 1) / size for n, size in zip(samples, sizes, strict=True))
        return cls(head, rates)


@cache
def passages() -> tuple[str, ...]:
    """The passages, sorted by file name."""
    folder = files("penny_bench.text").joinpath("passages")
    names = sorted(entry.name for entry in folder.iterdir() if entry.name.endswith(".txt"))
    return tuple(folder.joinpath(name).read_text(encoding="utf-8").strip() for name in names)


def head_line(seed: int, number: int) -> str:
    """First line of prompt `number`. It differs between all seeds and numbers: no cache knows it."""
    return f"No. {number} of series {seed}. {INSTRUCTION}\n\n"


def sample_prompts(seed: int) -> list[str]:
    """One short prompt for each passage, to learn a `Gauge`."""
    return [head_line(seed, 0) + text[:SAMPLE] for text in passages()]


def prompt(tokens: int, seed: int, number: int, gauge: Gauge) -> str:
    """Prompt `number` of a measurement, about `tokens` long, never shorter than its first line.

    Behind the line come the passages in turn, beginning with another one for each number.
    """
    text, left = head_line(seed, number), tokens - gauge.head
    texts = passages()
    while left > 0:
        body, rate = texts[number % len(texts)] + "\n\n", gauge.rates[number % len(texts)]
        text += body[: max(1, round(left / rate))]
        left -= len(body) * rate
        number += 1
    return text
