"""Counting tokens of servers that do not: an estimate, which is labelled as one wherever it is used."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from penny_bench.errors import BenchError

Counter = Callable[[str], int]


def load_tokenizer(path: Path) -> Counter:
    """A function that counts the tokens of a text.

    Args:
        path: a `tokenizer.json`, or the folder of a model that has one.

    Raises:
        BenchError: there is none, it cannot be read, or the package `tokenizers` is missing.
    """
    try:
        from tokenizers import Tokenizer
    except ImportError as error:
        raise BenchError(
            'Counting with a tokenizer needs the package tokenizers: pip install "penny-bench[tokenizer]".'
        ) from error
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise BenchError(f"There is no {file}; give a tokenizer.json, or the folder of a model that has one.")
    try:
        tokenizer = Tokenizer.from_file(str(file))
    except Exception as error:
        raise BenchError(f"{file} is no tokenizer ({error}).") from error
    return lambda text: len(tokenizer.encode(text, add_special_tokens=False).ids)
