"""What a report is made of. HTML and Markdown are two renderings of the same sections."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Table:
    """A table of plain text.

    Attributes:
        heads: of the columns. The first column names the row and is set left, the others right.
        rows: cells as text.
        caption: a short sentence, or nothing.
        left: numbers of further columns that hold words, and so are set left.
    """

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    caption: str = ""
    left: frozenset[int] = frozenset()


@dataclass(frozen=True)
class Choice:
    """One entry of a figure's picker: its text and the traces it shows."""

    label: str
    data: list[dict[str, Any]]


@dataclass(frozen=True)
class Figure:
    """A plot for plotly.js.

    Colours are named as CSS variables, `var(--s1)` to `var(--s8)`, which the page resolves for light and dark.

    Attributes:
        title: what it shows, for the caption and for a reader who cannot see it.
        data: the traces; empty where the picker brings them.
        layout: plotly's layout, without colours and fonts.
        choices: entries of a picker; the first is shown at the start. The others are a press of a key away.
    """

    title: str
    data: list[dict[str, Any]]
    layout: dict[str, Any]
    choices: tuple[Choice, ...] = ()


@dataclass(frozen=True)
class Tile:
    """One number, large: what it is, the number with its unit, and a remark."""

    label: str
    value: str
    remark: str = ""


@dataclass(frozen=True)
class Section:
    """One question and its answer.

    Attributes:
        key: a word for links.
        title: its heading.
        tiles: the few numbers that come before all others.
        lines: sentences before the figures: what is shown, how it is defined, what was left out.
        figures: plots, left out of Markdown.
        tables: the numbers.
        alarm: sentences about what makes the numbers less than they seem; shown first and loud.
        code: text to show as it is, such as a command.
        absent: why there is nothing to show, in a sentence. Then there are neither figures nor tables.
    """

    key: str
    title: str
    tiles: tuple[Tile, ...] = ()
    lines: tuple[str, ...] = ()
    figures: tuple[Figure, ...] = ()
    tables: tuple[Table, ...] = ()
    alarm: tuple[str, ...] = ()
    code: str = ""
    absent: str | None = None


@dataclass(frozen=True)
class Report:
    """All sections about one document.

    Attributes:
        title: one line that tells this document from others.
        name: its file.
        sections: in the order in which they are read.
    """

    title: str
    name: str
    sections: tuple[Section, ...]
