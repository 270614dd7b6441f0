"""The works that prompts are made of; `works/README.md` says where each comes from."""

import lzma
from functools import cache
from importlib.resources import files

LANGUAGES = ("en", "de", "fr", "es", "ru", "zh", "ja", "py")
"""Languages of the works, each with its own tokens per character; `py` is Python."""


@cache
def works() -> tuple[str, ...]:
    """Names of all works, sorted. A name ends in `_` and the language."""
    folder = files("penny_bench.text").joinpath("works")
    return tuple(sorted(e.name.removesuffix(".txt.xz") for e in folder.iterdir() if e.name.endswith(".xz")))


@cache
def read_work(name: str) -> str:
    """The whole text of a work."""
    packed = files("penny_bench.text").joinpath("works", f"{name}.txt.xz").read_bytes()
    return lzma.decompress(packed).decode("utf-8")


def language(name: str) -> int:
    """Index of a work's language in `LANGUAGES`."""
    return LANGUAGES.index(name.rpartition("_")[2])


@cache
def passages() -> tuple[str, ...]:
    """A sample of each of `LANGUAGES`: pieces from all over its works, `SAMPLE` characters."""
    samples = []
    for code in range(len(LANGUAGES)):
        text = "".join(read_work(name) for name in works() if language(name) == code)
        size = SAMPLE // PIECES
        starts = [(2 * i + 1) * len(text) // (2 * PIECES) for i in range(PIECES)]
        samples.append("".join(text[start : start + size] for start in starts))
    return tuple(samples)


SAMPLE = 1000
"""Characters of a sample: enough to learn a language's tokens per character to a few per cent."""
PIECES = 10
"""Places that a sample is taken from."""
