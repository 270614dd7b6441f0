"""The target's own greedy choices: recorded token ids, one output a line."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from penny_spec.frspec.counting import Counts
from penny_spec.frspec.coverage import Labels
from penny_spec.frspec.documents import Fields, read_rows, row_labels
from penny_spec.frspec.errors import InputError
from penny_spec.frspec.sources import CorpusFile
from penny_spec.frspec.streams import Advance


@dataclass(frozen=True, eq=False)
class Choice:
    """One recorded output.

    Attributes:
        ids: int64 `(tokens,)`.
        data: the ids as little-endian int64, which the hold-out and the digests read.
        labels: its language and domain.
    """

    ids: Counts
    data: bytes
    labels: Labels


def read_choices(
    file: CorpusFile, field: str, fields: Fields, vocabulary: frozenset[int], advance: Advance
) -> Iterator[Choice]:
    """The recorded outputs of a jsonl file (plain, gzip or zstd); empty ones are passed over.

    Args:
        file: one object a line.
        field: field with the list of token ids.
        fields: names of the language and domain fields.
        vocabulary: all ids of the tokenizer.
        advance: see `Advance`.

    Raises:
        InputError: a line without the list, or an id that the tokenizer lacks (it was recorded with another one).
    """
    for number, row in read_rows(file, advance):
        where = f"line {number} of {file.path}"
        ids = row.get(field)
        if not isinstance(ids, list) or any(type(token) is not int for token in ids):
            raise InputError(
                f"The field {field!r} in {where} is no list of token ids; name the field that is one."
            )
        if strange := [token for token in ids if token not in vocabulary]:
            raise InputError(
                f"Token {strange[0]} in {where} is no id of the tokenizer; it was recorded with another one."
            )
        if ids:
            array = np.asarray(ids, dtype=np.int64)
            yield Choice(array, array.astype("<i8").tobytes(), row_labels(row, where, fields, file.source))
