"""The blind sheet: replies to be marked by a person, in an order that tells nothing of where they come from."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from penny_bench.cases.reasoning import CASES
from penny_bench.cases.reasoning.model import POINTS, Item, Question, ReasoningCase
from penny_bench.errors import BenchError

SCHEMA = "penny-bench/marks/1"

Document = Mapping[str, Any]


@dataclass(frozen=True)
class Entry:
    """A reply on the sheet.

    Attributes:
        id: made of the seed and the reply; it tells nothing, but finds the reply again.
        case, question: what was asked.
        reply: what the model said in the end, without its thoughts.
        before: what it said in earlier turns of the case.
        place: index of the request in its document.
    """

    id: str
    case: ReasoningCase
    question: Question
    reply: str
    before: tuple[str, ...]
    place: int

    @property
    def items(self) -> list[Item]:
        """Items that a person must judge."""
        return [item for item in self.question.items if item.guide]


def entries(document: Document, seed: int) -> list[Entry]:
    """The replies of a run that a person must judge, in the order of the run; empty ones need no judge.

    Raises:
        BenchError: it is no run of the reasoning workload, or of cases that this version does not have.
    """
    workload = document.get("workload")
    if not isinstance(workload, Mapping) or workload.get("kind") != "reasoning":
        raise BenchError(
            "This is no result of the workload reasoning; grade what penny-bench run wrote with --json."
        )
    found = []
    said: dict[str, tuple[str, ...]] = {}
    for place, request in enumerate(document["requests"]):
        words = request["text"]["content"] if request["text"] and not request["failure"] else ""
        case, question = _asked(request)
        before = said.get(case.name, ())
        said[case.name] = (*before, words)
        if words.strip() and any(item.guide for item in question.items):
            found.append(Entry(_id(document, request, seed), case, question, words, before, place))
    return found


def sheet(documents: Sequence[Document], seed: int) -> dict[str, Any]:
    """All replies of the runs in an order that the seed gives, with a place for each mark.

    Raises:
        BenchError: a run is no reasoning run, or comes twice.
    """
    found = [entry for document in documents for entry in entries(document, seed)]
    if len({entry.id for entry in found}) < len(found):
        raise BenchError("One of the results is given twice; give each once.")
    found.sort(key=lambda entry: entry.id)  # made of the seed and a hash, so that it tells nothing
    return {
        "schema": SCHEMA,
        "seed": seed,
        "replies": [
            {
                "id": entry.id,
                "case": entry.case.name,
                "items": [{"name": item.name, "of": POINTS, "mark": None} for item in entry.items],
            }
            for entry in found
        ],
    }


def markdown(documents: Sequence[Document], seed: int) -> str:
    """The same sheet to read: question, reply and what earns points, in the same order."""
    found = {entry.id: entry for document in documents for entry in entries(document, seed)}
    return "\n".join(_lines([found[reply["id"]] for reply in sheet(documents, seed)["replies"]])) + "\n"


def _lines(found: Sequence[Entry]) -> Iterator[str]:
    yield "# Replies to be marked"
    yield ""
    yield (
        f"Give each item 0 to {POINTS} points, halves allowed: put them in place of `null` behind `mark` in "
        "the JSON file of the same name, under the same id. What a program can decide is not asked for here."
    )
    for entry in found:
        yield from ("", f"## {entry.id} ({entry.case.name})", "")
        for message in entry.case.history:
            yield from _quoted(f"{message['role'].capitalize()}, before", message["content"])
        for question, words in zip(entry.case.questions, entry.before, strict=False):
            yield from _quoted("User, before", question.words)
            yield from _quoted("Assistant, before", words)
        yield from _quoted("User", entry.question.words)
        yield from _quoted("Reply to be marked", entry.reply)
        yield from (f"- **{item.name}**, 0 to {POINTS}. {item.guide}" for item in entry.items)


def _quoted(who: str, words: str) -> Iterator[str]:
    yield from (f"{who}:", "")
    yield from (f"> {line}".rstrip() for line in words.strip().splitlines())
    yield ""


def _asked(request: Mapping[str, Any]) -> tuple[ReasoningCase, Question]:
    for case in CASES:
        if case.name == request["case"] and 0 <= (request["turn"] or 0) < len(case.questions):
            return case, case.questions[request["turn"] or 0]
    raise BenchError(
        f"This version of penny-bench has no case {request['case']!r} with a turn {request['turn']}; grade "
        "the run with the version that made it."
    )


def _id(document: Document, request: Mapping[str, Any], seed: int) -> str:
    words = f"{seed}\0{document['started']}\0{request['number']}\0{request['text']['content']}"
    return hashlib.sha256(words.encode()).hexdigest()[:12]
