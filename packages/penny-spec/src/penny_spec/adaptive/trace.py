"""Recorded verifications: one JSON object a line, behind a line that says how they were recorded.

The first line is the header, `{"schema": "penny-spec.verify-trace/1", "every_position": false}`; more keys may say
where a trace comes from. Each line after it is one request's part of a verify forward:
`{"request": 0, "width": 7, "accepted": 3, "top1": 0.97, "batch": 1}`. The lines of one forward stand together,
`batch` of them. `trace.schema.json` beside this file has both as a JSON Schema.

With `every_position` the recorder verified a draft at *every* position of the texts, not only where its own steps
began: line n of a request is the draft after n of its tokens. Such a trace replays any choice of widths exactly, on
the same text. Without it, a replay keeps the recorded steps, whatever the width: a narrower step leaves accepted
tokens behind, and the next one still starts where the recorded one did.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

SCHEMA = "penny-spec.verify-trace/1"


@dataclass(frozen=True)
class Record:
    """One line: what happened to one request in one verify forward.

    Attributes:
        request: which request, a number of the recorder's.
        width: draft tokens verified.
        accepted: how many of them were accepted.
        top1: the draft's probability of its first token.
        batch: requests in the forward.
    """

    request: int
    width: int
    accepted: int
    top1: float
    batch: int


@dataclass(frozen=True)
class Trace:
    """The records of a trace in their order, and whether every position of the texts was recorded.

    `origin` holds the other keys of the header.
    """

    records: tuple[Record, ...]
    every_position: bool = False
    origin: dict[str, Any] = field(default_factory=dict)

    def only(self, wanted: Callable[[int], bool]) -> "Trace":
        """Return the trace of those requests whose number `wanted` accepts; for traces of batch size 1."""
        if any(record.batch != 1 for record in self.records):
            raise ValueError(
                "A trace with batches of several requests cannot lose some of them; record it at batch 1."
            )
        kept = tuple(record for record in self.records if wanted(record.request))
        return Trace(kept, self.every_position, self.origin)


def read_trace(path: Path) -> Trace:
    """Read a trace file.

    Raises:
        ValueError: a line that is no record; the message names the file, the line and the field.
        OSError: the file cannot be read.
    """
    return parse_trace(path.read_text(encoding="utf-8").splitlines(), path.name)


def parse_trace(lines: Iterable[str], name: str = "trace") -> Trace:
    """Read a trace from its lines; `name` is for messages. Raises as `read_trace`."""
    numbered = [(number, line) for number, line in enumerate(lines, start=1) if line.strip()]
    if not numbered:
        raise ValueError(f"{name} is empty; a trace starts with a header of schema {SCHEMA}.")
    header = _object(numbered[0][1], f"{name} line 1")
    if header.get("schema") != SCHEMA or not isinstance(header.get("every_position"), bool):
        raise ValueError(
            f'{name} line 1 is no header of a trace; expected {{"schema": "{SCHEMA}", "every_position": true or '
            "false}, with further keys as wanted."
        )
    records = tuple(_record(line, f"{name} line {number}") for number, line in numbered[1:])
    if not records:
        raise ValueError(f"{name} has a header and no steps; record at least one.")
    origin = {key: value for key, value in header.items() if key not in ("schema", "every_position")}
    return Trace(records, header["every_position"], origin)


def write_trace(path: Path, trace: Trace) -> None:
    """Write a trace file; probabilities are kept to 4 decimals, and never rounded up to a whole 1."""
    header = {"schema": SCHEMA, "every_position": trace.every_position, **trace.origin}
    lines = [json.dumps(header)]
    for record in trace.records:
        top1 = record.top1 if record.top1 == 1.0 else min(round(record.top1, 4), 0.9999)
        lines.append(json.dumps(asdict(record) | {"top1": top1}, separators=(",", ":")))
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def _object(line: str, where: str) -> dict[str, Any]:
    try:
        found = json.loads(line)
    except json.JSONDecodeError as error:
        raise ValueError(f"{where} is no JSON ({error.msg}); a trace has one object on each line.") from error
    if not isinstance(found, dict):
        raise ValueError(
            f"{where} is {type(found).__name__}, not an object; a trace has one object on each line."
        )
    return found


_LOWEST = {"request": 0, "width": 1, "accepted": 0, "batch": 1}


def _record(line: str, where: str) -> Record:
    found = _object(line, where)
    if set(found) != {*_LOWEST, "top1"}:
        raise ValueError(
            f"{where} has the fields {sorted(found)}; a record has exactly {sorted({*_LOWEST, 'top1'})}."
        )
    for key, lowest in _LOWEST.items():
        value = found[key]
        if isinstance(value, bool) or not isinstance(value, int) or value < lowest:
            raise ValueError(f"{where} has {key} {value!r}; it must be a whole number of at least {lowest}.")
    top1 = found["top1"]
    if isinstance(top1, bool) or not isinstance(top1, int | float) or not 0 <= top1 <= 1:
        raise ValueError(f"{where} has top1 {top1!r}; it is a probability, a number from 0 to 1.")
    if found["accepted"] > found["width"]:
        raise ValueError(
            f"{where} has {found['accepted']} tokens accepted of {found['width']}; that is more than were drafted."
        )
    return Record(found["request"], found["width"], found["accepted"], float(top1), found["batch"])
