"""The cases: `cases.toml` and the files that it names. All of it is this project's own."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any, Literal

Language = Literal["python", "toml"]


@dataclass(frozen=True)
class EditCase:
    """An edit of a file.

    Attributes:
        name: of the case.
        language: of the file.
        before: the file as it is.
        edit: what is asked, in words.
        after: the file as it should become.
    """

    name: str
    language: Language
    before: str
    edit: str
    after: str

    @property
    def request(self) -> str:
        """The words and the file, as they are sent."""
        return (
            f"Here is a file.\n\n```{self.language}\n{self.before}```\n\n{self.edit}\n\n"
            f"Answer with the whole file after this edit, in one ```{self.language} block, and with nothing else."
        )


@cache
def edit_cases() -> tuple[EditCase, ...]:
    """All cases, in order."""
    folder = files("penny_bench.cases.code_edit")
    data = tomllib.loads(folder.joinpath("cases.toml").read_text(encoding="utf-8"))
    return tuple(_case(one) for one in data["cases"])


def _case(data: dict[str, Any]) -> EditCase:
    folder = files("penny_bench.cases.code_edit").joinpath("files")
    before = folder.joinpath(f"{data['file']}.txt").read_text(encoding="utf-8")
    after = before
    for change in data["changes"]:
        after = after.replace(change["old"], change["new"])
    return EditCase(data["name"], data["language"], before, data["edit"], after)
