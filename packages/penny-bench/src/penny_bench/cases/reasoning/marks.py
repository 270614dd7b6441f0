"""Marks of a person, put into the document of a run."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from penny_bench.cases.reasoning.model import POINTS
from penny_bench.cases.reasoning.sheet import SCHEMA, Document, entries
from penny_bench.errors import BenchError
from penny_bench.evidence.parts import checks_part
from penny_bench.load import Check


class _Item(BaseModel):
    model_config = ConfigDict(extra="forbid")

    name: str
    of: float
    mark: float | None = Field(ge=0, le=POINTS, allow_inf_nan=False)


class _Reply(BaseModel):
    model_config = ConfigDict(extra="forbid")

    id: str
    case: str
    items: list[_Item]


class Marks(BaseModel):
    """A sheet as it comes back.

    Attributes:
        format: of the file.
        seed: with which it was made.
        replies: with their marks.
    """

    model_config = ConfigDict(extra="forbid")

    format: str = Field(alias="schema")
    seed: int
    replies: list[_Reply]


@dataclass(frozen=True)
class Graded:
    """What became of a document.

    Attributes:
        document: with the marks; the one given is left as it was.
        program, person: points by a program and by a person, so far.
        of: points that there are.
        unmarked: items that still wait for a mark, as case and name.
        found: how many replies of the sheet are of this document.
    """

    document: dict[str, Any]
    program: float
    person: float
    of: float
    unmarked: tuple[tuple[str, str], ...]
    found: int

    @property
    def score(self) -> float:
        """All points so far."""
        return self.program + self.person


def read_marks(data: Any) -> Marks:
    """A sheet from its JSON.

    Raises:
        BenchError: it is no sheet, or a mark is not from 0 to 4; the message names the place.
    """
    try:
        marks = Marks.model_validate(data)
    except ValidationError as error:
        first = error.errors()[0]
        place = ".".join(str(part) for part in first["loc"]) or "the whole"
        raise BenchError(
            f"The marks are wrong at {place}: {first['msg']}, found {str(first.get('input'))[:80]!r}."
        ) from error
    if marks.format != SCHEMA:
        raise BenchError(f"The marks have the schema {marks.format!r}; this version reads {SCHEMA!r}.")
    return marks


def graded(document: Document, marks: Marks) -> Graded:
    """Put the marks into a document, and count.

    Raises:
        BenchError: the document is of another workload, or an item is not in the rubric of its reply.
    """
    made = copy.deepcopy(dict(document))
    given = {reply.id: {item.name: item.mark for item in reply.items} for reply in marks.replies}
    found = [entry for entry in entries(document, marks.seed) if entry.id in given]
    personal: set[tuple[str, str]] = set()
    for entry in entries(document, marks.seed):
        names = {item.name for item in entry.items}
        personal |= {(entry.case.name, name) for name in names}
        if strange := given.get(entry.id, {}).keys() - names:
            raise BenchError(
                f"The reply {entry.id} of {entry.case.name} has no item {min(strange)!r} in its rubric."
            )
        request = made["requests"][entry.place]
        request["checks"] = [
            asdict(_marked(Check(**check), given.get(entry.id, {}))) for check in request["checks"]
        ]
    checks = [Check(**check) for request in made["requests"] for check in request["checks"]]
    made["checks"] = checks_part(checks)
    person = sum(check.points for check in checks if (check.case, check.name) in personal)
    total = sum(check.points for check in checks)
    of = sum(check.of for check in checks)
    unmarked = tuple((check.case, check.name) for check in checks if check.passed is None)
    made["metrics"] = [m for m in made["metrics"] if m["key"] != "points"]
    if not unmarked:
        made["metrics"].append(_metric(total, of))
    return Graded(made, total - person, person, of, unmarked, len(found))


def _marked(check: Check, given: Mapping[str, float | None]) -> Check:
    mark = given.get(check.name)
    if mark is None:
        return check
    return replace(
        check, passed=mark == check.of, points=mark, detail=f"A person gave {mark:g} of {check.of:g}."
    )


def _metric(points: float, of: float) -> dict[str, Any]:
    return {
        "phase": None,
        "key": "points",
        "label": "points by program and person",
        "value": points,
        "values": [points],
        "unit": f"of {of:g}",
        "better": "higher",
        "n": 1,
        "floor": None,
        "share": None,
    }
