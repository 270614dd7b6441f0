"""A world that an agent acts on through tools: it carries out calls, and remembers every change."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from jsonschema import Draft202012Validator

from penny_bench.cases.tools.compare import parameters, typed
from penny_bench.cases.tools.model import Schema


class Refused(Exception):  # noqa: N818 - it is an answer of the world, not a fault
    """A call that the world does not carry out; the message is what the agent is told."""


class World(ABC):
    """A small deterministic world, fresh for each conversation.

    Attributes:
        name: of the task.
        task: what the user wants.
        tools: that act on the world.
        changing: names of the tools that change it.
        calls: fewest calls that do the task.
        answer: what the last reply says when the task is done.
        changes: the changing calls that it carried out, in order, as name and arguments.
    """

    name: ClassVar[str]
    task: ClassVar[str]
    tools: ClassVar[tuple[Schema, ...]]
    changing: ClassVar[frozenset[str]]
    calls: ClassVar[int]
    answer: ClassVar[str]

    def __init__(self) -> None:
        self.changes: list[tuple[str, str]] = []

    def call(self, name: str, arguments: Mapping[str, Any] | None) -> str:
        """Carry out a call and tell its result as JSON; a call that cannot be carried out changes nothing."""
        schema = parameters(self.tools, name)
        try:
            if schema is None:
                raise Refused(f"there is no tool {name}")
            given = typed(arguments, schema)
            for error in Draft202012Validator(schema).iter_errors(given):
                raise Refused(f"wrong arguments: {error.message}")
            result = self.act(name, given)
        except Refused as reason:
            return json.dumps({"error": str(reason)})
        if name in self.changing:
            self.changes.append((name, json.dumps(given, sort_keys=True)))
        return json.dumps(result, ensure_ascii=False)

    @abstractmethod
    def act(self, name: str, given: Mapping[str, Any]) -> dict[str, Any]:
        """Carry out a call with arguments that fit.

        Raises:
            Refused: it cannot be carried out.
        """

    @abstractmethod
    def missing(self) -> str:
        """How the world differs from what the task wanted, as a sentence; "" if it does not."""

    def repeated(self) -> str:
        """Which change was made more than once, as a sentence; "" if none was."""
        again = [change for change in self.changes if self.changes.count(change) > 1]
        return (
            f"{again[0][0]} was carried out {self.changes.count(again[0])} times with {again[0][1]}."
            if again
            else ""
        )
