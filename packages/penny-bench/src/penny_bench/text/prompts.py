"""Prompts made from the works that ship with the package."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain
from random import Random

from penny_bench.text.library import LANGUAGES, language, passages, read_work, works

INSTRUCTION = "Continue this text in its own language."


@dataclass(frozen=True)
class Gauge:
    """How a server counts the text of prompts.

    Attributes:
        head: tokens of a prompt that has only its first line, chat template included.
        rates: tokens per character of each of `LANGUAGES`; they differ tenfold.
    """

    head: float
    rates: tuple[float, ...]

    @classmethod
    def of(cls, head: int, samples: Sequence[int]) -> "Gauge":
        """From the prompt tokens that the server counted for `head_line` and for each of `sample_prompts`."""
        sizes = [len(text) for text in passages()]
        rates = tuple(max(n - head, 1) / size for n, size in zip(samples, sizes, strict=True))
        return cls(head, rates)


@dataclass(frozen=True)
class Segment:
    """Text of one language.

    Attributes:
        text: as it comes in a prompt.
        rate: its tokens per character.
    """

    text: str
    rate: float


def head_line(seed: int, number: int) -> str:
    """First line of prompt `number`. It differs between all seeds and numbers: no cache knows it."""
    return f"No. {number} of series {seed}. {INSTRUCTION}\n\n"


def sample_prompts(seed: int) -> list[str]:
    """One prompt for each language, to learn a `Gauge`."""
    return [head_line(seed, 0) + text for text in passages()]


def prompt(tokens: int, seed: int, number: int, gauge: Gauge) -> str:
    """Prompt `number` of a measurement, about `tokens` long, never shorter than its first line.

    Behind the line comes a work from some paragraph on, then the works after it. The works have a random order and
    each number begins with the next one, so that the prompts of a measurement mix all languages. Nothing comes twice
    before all works were used whole; `repeated` tells the share that does.
    """
    pieces = segments(tokens - gauge.head, seed, number, gauge)
    return "".join((head_line(seed, number), *(piece.text for piece in pieces)))


def segments(tokens: float, seed: int, number: int, gauge: Gauge) -> list[Segment]:
    """The text of a prompt without its first line, about `tokens` long, in parts of one language each."""
    parts, left = [], tokens
    pieces = _pieces(seed, number)
    while left > 0:
        work, start, end, code = next(pieces)
        rate = gauge.rates[code]
        wanted = max(1, round(left / rate))
        whole = wanted > end - start
        parts.append(Segment(work[start : min(end, start + wanted)] + "\n\n" * whole, rate))
        left -= (end - start + 2) * rate
    return parts


def distinct_tokens(gauge: Gauge) -> float:
    """Tokens of all works together, about."""
    return sum(len(read_work(name)) * gauge.rates[language(name)] for name in works())


def repeated(tokens: int, gauge: Gauge) -> float:
    """The share of a prompt of `tokens` tokens that comes earlier in it, from 0 to 1."""
    return max(0.0, 1 - distinct_tokens(gauge) / max(tokens - gauge.head, 1.0))


def random_prompt(tokens: int, seed: int, number: int, gauge: Gauge) -> str:
    """As `prompt`, but of words drawn from all languages in turn, so that no model can guess the next.

    What a server gains by guessing (drafts, n-grams) it loses on such a text: use it to show that, not in place of
    real text. The length is less exact than that of `prompt`.
    """
    line, left = head_line(seed, number), tokens - gauge.head
    words, lengths = _words()
    of_round = sum(length * rate for length, rate in zip(lengths, gauge.rates, strict=True))
    rounds = max(0, round(left / of_round))
    draw = Random(f"random {seed} {number}")
    columns = [draw.choices(some, k=rounds) for some in words]
    return line + " ".join(chain.from_iterable(zip(*columns, strict=True)))


@lru_cache(maxsize=64)
def _order(seed: int) -> tuple[str, ...]:
    names = list(works())
    Random(seed).shuffle(names)
    return tuple(names)


def _pieces(seed: int, number: int) -> Iterator[tuple[str, int, int, int]]:
    """Parts of works without end, each with its bounds and language; the first begins at a random paragraph."""
    names = _order(seed)
    at = number % len(names)
    first, code = read_work(names[at]), language(names[at])
    middle = first.rfind("\n", 0, int(Random(f"{seed} {number}").random() * len(first))) + 1
    while True:
        yield first, middle, len(first), code
        for name in names[at + 1 :] + names[:at]:
            work = read_work(name)
            yield work, 0, len(work), language(name)
        yield first, 0, middle, code


@lru_cache(maxsize=1)
def _words() -> tuple[tuple[tuple[str, ...], ...], tuple[float, ...]]:
    """Words of each language, and their mean length with the blank behind; pairs of characters where no blanks are."""
    words = []
    for code, name in enumerate(LANGUAGES):
        text = "".join(read_work(work) for work in works() if language(work) == code)
        if name in ("zh", "ja"):
            some = tuple(line[i : i + 2] for line in text.split("\n") for i in range(0, len(line) - 1, 2))
        else:
            some = tuple(text.split())
        words.append(some)
    return tuple(words), tuple(1 + sum(map(len, some)) / len(some) for some in words)
