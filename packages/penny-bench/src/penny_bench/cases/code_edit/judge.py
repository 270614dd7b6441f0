"""Compares an edited file with the one that was due. Nothing that a model wrote is ever run."""

from __future__ import annotations

import ast
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from penny_bench.cases.code_edit.model import EditCase, Language
from penny_bench.load import Check

CODE, TEXT, PARSES = "same program", "same text", "parses"
"""Names of the checks; the first earns the point."""

_BLOCK = re.compile(r"^```[^\n`]*\n(.*?)^```", re.MULTILINE | re.DOTALL)
_PARSERS: dict[Language, Callable[[str], Any]] = {
    "python": lambda text: ast.dump(ast.parse(text)),
    "toml": tomllib.loads,
}


@dataclass(frozen=True)
class Edited:
    """A file as a reply gives it.

    Attributes:
        text: of the file.
        parses: whether it is of its language.
        same_code: whether it means the same as the file that was due: the same syntax tree or the same data.
        same_text: whether it is that file to the byte, but for blanks at its end.
        similarity: with the file that was due, by lines, from 0 to 1 (`difflib`).
        wrong_lines: lines to take away or to add to get the file that was due.
    """

    text: str
    parses: bool
    same_code: bool
    same_text: bool
    similarity: float
    wrong_lines: int

    def checks(self, case: EditCase) -> list[Check]:
        """Three checks; the one on the program earns a point."""
        found = f"{self.wrong_lines} lines differ from the file that was due."
        return [
            Check(case.name, PARSES, self.parses, "" if self.parses else f"The reply is no {case.language}."),
            Check(
                case.name, CODE, self.same_code, "" if self.same_code else found, float(self.same_code), 1.0
            ),
            Check(case.name, TEXT, self.same_text, "" if self.same_text else found),
        ]


def read_edited(case: EditCase, content: str) -> Edited:
    """The file of a reply: its longest code block, or all of it where there is none."""
    blocks = _BLOCK.findall(content)
    text = max(blocks, key=len) if blocks else content
    lines, due = text.rstrip().split("\n"), case.after.rstrip().split("\n")
    matcher = SequenceMatcher(None, lines, due, autojunk=False)
    kept = sum(block.size for block in matcher.get_matching_blocks())
    meaning = _meaning(case.language, text)
    return Edited(
        text=text,
        parses=meaning is not None,
        same_code=meaning is not None and meaning == _meaning(case.language, case.after),
        same_text=lines == due,
        similarity=matcher.ratio(),
        wrong_lines=len(lines) + len(due) - 2 * kept,
    )


def _meaning(language: Language, text: str) -> Any:
    """What the text says, to compare; None if it cannot be read."""
    try:
        return _PARSERS[language](text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None
