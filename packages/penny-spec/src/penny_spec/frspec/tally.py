"""Reading all inputs once: counts for the selection, counts to measure, and a row of the manifest each."""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from penny_spec.frspec.choices import read_choices
from penny_spec.frspec.counting import Counts, TokenCounter
from penny_spec.frspec.coverage import Labels
from penny_spec.frspec.documents import Fields, NotTextError, read_documents
from penny_spec.frspec.errors import InputError
from penny_spec.frspec.holdout import is_held_out
from penny_spec.frspec.manifest import CorpusRow
from penny_spec.frspec.sources import CorpusFile
from penny_spec.frspec.streams import Advance
from penny_spec.frspec.vocabulary import Vocabulary

GROUPS = 256
"""Pairs of language and domain that are told apart; more mean that the wrong field was named."""


@dataclass(frozen=True, eq=False)
class Tally:
    """What a set of files holds.

    Attributes:
        used: int64 `(highest id + 1,)`, occurrences of each id in the documents for the selection.
        held_out: the same for the documents that were kept back, by label; all labels seen are there.
        rows: one for each file that was read.
        warnings: one sentence for each file of a folder that was passed over.
    """

    used: Counts
    held_out: dict[Labels, Counts]
    rows: tuple[CorpusRow, ...]
    warnings: tuple[str, ...]


@dataclass
class _Row:
    documents: int = 0
    used: int = 0
    held_documents: int = 0
    held: int = 0
    labels: set[Labels] = field(default_factory=set)

    def __post_init__(self) -> None:
        self.digest = hashlib.sha256()

    def add(self, data: bytes, labels: Labels, held_out: bool) -> None:
        self.labels.add(labels)
        if len(self.labels) > GROUPS:
            raise InputError(
                f"More than {GROUPS} pairs of language and domain were found, such as {tuple(labels)}; "
                "name fields that hold a language and a domain."
            )
        if held_out:
            self.held_documents += 1
            self.held += len(data)
        else:
            self.documents += 1
            self.used += len(data)
            self.digest.update(data)

    def of(self, name: str, source: str) -> CorpusRow:
        digest = self.digest.hexdigest()
        return CorpusRow(name, source, self.documents, self.used, digest, self.held_documents, self.held)


def tally_corpus(
    files: Sequence[CorpusFile], vocabulary: Vocabulary, fields: Fields, hold_out: float, advance: Advance
) -> Tally:
    """Count the tokens of all documents; `hold_out` (0 to 1) is the share of documents that are kept back.

    Raises:
        InputError: see `read_documents`; or more than `GROUPS` pairs of language and domain.
    """
    counter: TokenCounter[Labels | None] = TokenCounter(vocabulary)
    rows, warnings, seen = list[CorpusRow](), list[str](), set[Labels]()
    for file in files:
        row = _Row(labels=seen)
        try:
            for document in read_documents(file, fields, advance):
                held_out = is_held_out(document.data, hold_out)
                row.add(document.data, document.labels, held_out)
                counter.add(document.labels if held_out else None, document.text)
        except NotTextError as error:
            if file.listed:
                raise
            read = row.documents + row.held_documents
            warnings.append(
                f"Passed over after {read} documents: {error}" if read else f"Passed over: {error}"
            )
            if not read:
                continue
        rows.append(row.of(file.name, "corpus"))
    counts = counter.counts()
    empty = np.zeros(vocabulary.size, dtype=np.int64)
    held = {labels: counts.get(labels, empty) for labels in sorted(seen)}
    return Tally(counts.get(None, empty), held, tuple(rows), tuple(warnings))


def tally_choices(
    files: Sequence[CorpusFile],
    vocabulary: Vocabulary,
    fields: Fields,
    ids_field: str,
    hold_out: float,
    advance: Advance,
) -> Tally:
    """Count recorded token ids; the arguments and errors are those of `tally_corpus` and `read_choices`."""
    known = frozenset(vocabulary.ids)
    counts: dict[Labels | None, Counter[int]] = {None: Counter()}
    rows, seen = list[CorpusRow](), set[Labels]()
    for file in files:
        row = _Row(labels=seen)
        for choice in read_choices(file, ids_field, fields, known, advance):
            held_out = is_held_out(choice.data, hold_out)
            row.add(choice.data, choice.labels, held_out)
            counts.setdefault(choice.labels if held_out else None, Counter()).update(choice.ids.tolist())
        rows.append(row.of(file.name, "choices"))
    arrays = {key: _array(found, vocabulary.size) for key, found in counts.items()}
    held = {labels: arrays.get(labels, _array(Counter(), vocabulary.size)) for labels in sorted(seen)}
    return Tally(arrays[None], held, tuple(rows), ())


def _array(found: Counter[int], size: int) -> Counts:
    array = np.zeros(size, dtype=np.int64)
    array[list(found)] = list(found.values())
    return array
