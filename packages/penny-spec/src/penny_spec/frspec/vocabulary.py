"""The tokenizer that a map is made for."""

import hashlib
import json
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from tokenizers import Tokenizer

from penny_spec.frspec.errors import InputError


@dataclass(frozen=True, eq=False)
class Vocabulary:
    """A tokenizer with what a map needs to know of it.

    Attributes:
        tokenizer: the tokenizer, without truncation and padding.
        definition: its `tokenizer.json`, parsed.
        sha256: SHA-256 in hex of the bytes of `tokenizer.json`.
        model: name of the model, the folder's or file's name unless told otherwise.
        model_vocab_size: rows of the target's head, padding included; at least `size`.
    """

    tokenizer: Tokenizer
    definition: dict[str, Any]
    sha256: str
    model: str
    model_vocab_size: int

    @cached_property
    def ids(self) -> tuple[int, ...]:
        """All ids of the tokenizer, ascending."""
        return tuple(sorted(self.tokenizer.get_vocab(with_added_tokens=True).values()))

    @cached_property
    def size(self) -> int:
        """One above the highest id of the tokenizer."""
        return self.ids[-1] + 1

    @cached_property
    def special_ids(self) -> tuple[int, ...]:
        """Ids of added tokens that the tokenizer marks as special, ascending."""
        return tuple(sorted(token["id"] for token in self._added if token["special"]))

    @cached_property
    def added_ids(self) -> tuple[int, ...]:
        """Ids of all added tokens (special ones, and tags such as `</think>`), ascending."""
        return tuple(sorted(token["id"] for token in self._added))

    @property
    def _added(self) -> list[dict[str, Any]]:
        return list(self.definition.get("added_tokens") or [])


def load_vocabulary(
    path: Path, *, model: str | None = None, model_vocab_size: int | None = None
) -> Vocabulary:
    """Read a `tokenizer.json`, or the one in a checkpoint folder with the row count of its `config.json`.

    Raises:
        InputError: no such file, a file that is no tokenizer, or a head with fewer rows than the tokenizer has ids.
    """
    file = path / "tokenizer.json" if path.is_dir() else path
    if not file.is_file():
        raise InputError(
            f"There is no file {file}; give a tokenizer.json or a checkpoint folder that holds one."
        )
    data = file.read_bytes()
    try:
        tokenizer = Tokenizer.from_buffer(data)
    except ValueError as error:
        raise InputError(f"{file} is no tokenizer of the tokenizers library: {error}.") from error
    tokenizer.no_truncation()
    tokenizer.no_padding()
    found = Vocabulary(
        tokenizer=tokenizer,
        definition=json.loads(data),
        sha256=hashlib.sha256(data).hexdigest(),
        model=model or file.absolute().parent.name,
        model_vocab_size=0,
    )
    if not found.tokenizer.get_vocab_size():
        raise InputError(f"{file} has no tokens; give the tokenizer of the target model.")
    rows = model_vocab_size or _rows_of_head(file.parent / "config.json") or found.size
    if rows < found.size:
        raise InputError(
            f"The head has {rows:,} rows, {file} has ids up to {found.size - 1:,}; "
            "they belong to different models, or the row count is wrong."
        )
    return Vocabulary(found.tokenizer, found.definition, found.sha256, found.model, rows)


def _rows_of_head(config: Path) -> int | None:
    if not config.is_file():
        return None
    try:
        parsed = json.loads(config.read_bytes())
    except ValueError as error:
        raise InputError(f"{config} is no JSON: {error}.") from error
    for level in (parsed.get("text_config") or {}, parsed):
        if isinstance(rows := level.get("vocab_size"), int):
            return rows
    return None
