"""Documents of a corpus file: blocks of plain text, rows of jsonl and parquet."""

import codecs
import importlib
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from penny_spec.frspec.coverage import UNLABELLED, Labels
from penny_spec.frspec.errors import InputError
from penny_spec.frspec.sources import CorpusFile, Source
from penny_spec.frspec.streams import Advance, read_chunks, read_lines

BLOCK = 1 << 14
"""Characters after which a plain text ends a document at the next blank line."""
LIMIT = 1 << 16
"""Characters after which it does so at the last line end, or there and then."""


@dataclass(frozen=True)
class Fields:
    """Names of the fields of a jsonl or parquet row."""

    text: str = "text"
    language: str = "language"
    domain: str = "domain"


@dataclass(frozen=True)
class Document:
    """A text, its UTF-8 bytes and its labels."""

    text: str
    data: bytes
    labels: Labels


class NotTextError(InputError):
    """A file that is no UTF-8 text; in a folder it is passed over with a warning."""


def read_documents(file: CorpusFile, fields: Fields, advance: Advance) -> Iterator[Document]:
    """The documents of a file, by its name's suffix: `.jsonl`, `.ndjson`, `.parquet`, else plain text.

    A plain text is one document up to `BLOCK` characters, a longer one is cut at blank lines. Empty and null texts
    are passed over.

    Raises:
        InputError: a file, line or row that cannot be read; the sentence names it.
    """
    if file.form == ".parquet":
        yield from _parquet(file, fields, advance)
    elif file.form in (".jsonl", ".ndjson"):
        for number, row in read_rows(file, advance):
            yield from _row(row, f"line {number} of {file.path}", fields, file.source)
    else:
        labels = Labels(file.source.language or UNLABELLED, file.source.domain or UNLABELLED)
        for text in _blocks(_decoded(file, advance)):
            yield Document(text, text.encode(), labels)


def read_rows(file: CorpusFile, advance: Advance) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and object of each line of a jsonl file.

    Raises:
        InputError: a line that is no JSON object.
    """
    for number, line in read_lines(file.path, advance):
        try:
            row = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise InputError(
                f"Line {number} of {file.path} is no JSON ({error}); write one object a line."
            ) from error
        if not isinstance(row, dict):
            raise InputError(
                f"Line {number} of {file.path} is a {type(row).__name__}; write one JSON object a line."
            )
        yield number, row


def row_labels(row: dict[str, Any], where: str, fields: Fields, source: Source) -> Labels:
    """Labels of a row: the source's when it names them, else the row's own fields.

    Raises:
        InputError: a label that is no text.
    """
    found = []
    for given, field in ((source.language, fields.language), (source.domain, fields.domain)):
        label = given or row.get(field) or UNLABELLED
        if not isinstance(label, str):
            raise InputError(f"The field {field!r} in {where} is {label!r}; a label is a text.")
        found.append(label)
    return Labels(*found)


def _row(row: dict[str, Any], where: str, fields: Fields, source: Source) -> Iterator[Document]:
    if fields.text not in row:
        names = ", ".join(map(repr, row)) or "none"
        raise InputError(
            f"There is no field {fields.text!r} in {where}, but {names}; name the field of the text."
        )
    text = row[fields.text]
    if text is None or text == "":
        return
    if not isinstance(text, str):
        raise InputError(
            f"The field {fields.text!r} in {where} is a {type(text).__name__}; it must be a text."
        )
    try:
        data = text.encode()
    except UnicodeEncodeError as error:
        raise InputError(f"The text in {where} has half a surrogate pair; repair or drop it.") from error
    yield Document(text, data, row_labels(row, where, fields, source))


def _parquet(file: CorpusFile, fields: Fields, advance: Advance) -> Iterator[Document]:
    try:
        pyarrow = importlib.import_module("pyarrow")
        parquet = importlib.import_module("pyarrow.parquet")
    except ImportError as error:
        raise InputError(f"{file.path} needs pyarrow: pip install 'penny-spec[parquet]'.") from error
    size = file.path.stat().st_size
    try:
        with parquet.ParquetFile(file.path) as table:
            names = table.schema_arrow.names
            if fields.text not in names:
                raise InputError(
                    f"{file.path} has no column {fields.text!r}, but {', '.join(map(repr, names))}; "
                    "name the column of the text."
                )
            wanted = [name for name in (fields.text, fields.language, fields.domain) if name in names]
            rows = 0
            for batch in table.iter_batches(batch_size=256, columns=wanted):
                for number, row in enumerate(batch.to_pylist(), start=rows + 1):
                    yield from _row(row, f"row {number} of {file.path}", fields, file.source)
                rows += batch.num_rows
                advance(size * batch.num_rows // table.metadata.num_rows)
    except pyarrow.ArrowException as error:
        raise InputError(f"{file.path} is no readable parquet file ({error}); fetch it again.") from error


def _decoded(file: CorpusFile, advance: Advance) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        for chunk in read_chunks(file.path, advance):
            if b"\0" in chunk:
                raise NotTextError(f"{file.path} holds NUL bytes; give UTF-8 text.")
            yield decoder.decode(chunk)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        raise NotTextError(f"{file.path} is no UTF-8 ({error.reason}); convert it first.") from error


def _blocks(texts: Iterable[str]) -> Iterator[str]:
    buffer = ""
    for text in texts:
        buffer += text
        while end := _end(buffer):
            yield buffer[:end]
            buffer = buffer[end:]
    if buffer:
        yield buffer


def _end(text: str) -> int:
    if (at := text.find("\n\n", BLOCK, LIMIT)) >= 0:
        return at + 2
    return 0 if len(text) < LIMIT else (text.rfind("\n", BLOCK, LIMIT) + 1 or LIMIT)
