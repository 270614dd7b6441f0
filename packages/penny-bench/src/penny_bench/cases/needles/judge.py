"""Asks for records, and reads them from a reply."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from penny_bench.cases.needles.haystack import Record
from penny_bench.load import Check

FORM = 'Answer with nothing but JSON lines, one record a line, each {"key": "K-....", "value": "..."}.'

_OBJECT = re.compile(r"\{[^{}]*\}")


def ask_all(count: int) -> str:
    """The request for every record of the text."""
    records = f"all {count} records" if count > 1 else "the record"
    return (
        f"Somewhere in the text above stand {records} of the form `Record KEY: value VALUE.`, each in a line of its "
        f"own. Give back {'each of them' if count > 1 else 'it'} exactly as it stands there, from top to bottom. {FORM}"
    )


def ask_some(records: Sequence[Record]) -> str:
    """The request for the values of some records, by their keys."""
    keys = ", ".join(record.key for record in records)
    return (
        "Somewhere in the text above stand records of the form `Record KEY: value VALUE.`, each in a line of its own. "
        f"Give back the records with these keys, exactly as they stand there: {keys}. {FORM}"
    )


@dataclass(frozen=True)
class Answer:
    """What a reply says.

    Attributes:
        values: all values that it gives for each key, in order.
    """

    values: dict[str, list[str]]

    def right(self, record: Record) -> bool:
        """Whether it gives this record, its exact value and no other."""
        return set(self.values.get(record.key, ())) == {record.value}

    def hallucinated(self, records: Sequence[Record]) -> int:
        """Records that it gives and that are not in the text: unknown keys, and values that are not the key's."""
        known = {record.key: record.value for record in records}
        return sum(known.get(key) != value for key, values in self.values.items() for value in set(values))

    def checks(self, case: str, records: Sequence[Record]) -> list[Check]:
        """One check for each of the records that were asked for, worth a point."""
        return [self._check(case, record) for record in records]

    def _check(self, case: str, record: Record) -> Check:
        name = f"{record.key} at {record.depth:.1%}"
        if self.right(record):
            return Check(case, name, True, "", 1.0, 1.0)
        found = self.values.get(record.key)
        said = f"Found {', '.join(found)!r}" if found else "Found no such key"
        return Check(case, name, False, f"{said}; expected {record.value!r}.", 0.0, 1.0)


def read_answer(content: str) -> Answer:
    """The records of a reply: every flat JSON object in it, in lines, an array or a code block."""
    values: dict[str, list[str]] = {}
    for found in _OBJECT.findall(content):
        try:
            record: Any = json.loads(found)
        except ValueError:
            record = None
        if isinstance(record, dict) and isinstance(record.get("key"), str) and "value" in record:
            values.setdefault(record["key"], []).append(str(record["value"]))
    return Answer(values)
