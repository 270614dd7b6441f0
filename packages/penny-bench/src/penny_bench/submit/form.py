"""Whether a document is whole."""

from __future__ import annotations

from pydantic import ValidationError

from penny_bench.errors import BenchError
from penny_bench.evidence.document import Document as Form
from penny_bench.report.read import RUN, Document

DECODE_KEYS = ("command", "started", "client", "server", "plan", "summary", "groups")


def check_form(document: Document) -> None:
    """Refuse a document that lacks a part of its form.

    Raises:
        BenchError: names the first part that is wrong.
    """
    if document.schema == RUN:
        try:
            Form.model_validate(document.value)
        except ValidationError as error:
            first = error.errors()[0]
            place = ".".join(str(part) for part in first["loc"])
            raise BenchError(
                f"{document.name} is no whole {RUN} document: {place}: {first['msg']}. Measure again with this version "
                f"of penny-bench."
            ) from error
        return
    missing = [key for key in DECODE_KEYS if key not in document.value]
    if missing:
        raise BenchError(
            f"{document.name} is no whole {document.schema} document: it lacks {', '.join(missing)}."
        )
