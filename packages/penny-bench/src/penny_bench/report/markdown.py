"""The report as Markdown, for pull requests and pages: the same sections without pictures."""

from __future__ import annotations

import re
from collections.abc import Sequence

from penny_bench.report.section import Report, Section, Table

_SPECIAL = re.compile(r"([\\`*_\[\]<>|#~$])")


def markdown(title: str, reports: Sequence[Report]) -> str:
    """The page. Text of documents is escaped, so that none of it becomes a link, a tag or a heading."""
    lines = [f"# {escaped(title)}", ""]
    for report in reports:
        if len(reports) > 1:
            lines += [f"## {escaped(report.title)}", "", f"File: {escaped(report.name)}", ""]
        for section in report.sections:
            lines += _section(section, "###" if len(reports) > 1 else "##")
    return "\n".join(lines).rstrip() + "\n"


def escaped(text: str) -> str:
    """Text in which Markdown sees nothing but text, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def markdown_table(table: Table) -> list[str]:
    """The lines of a table."""
    marks = [":---" if i == 0 or i in table.left else "---:" for i in range(len(table.heads))]
    rows = [f"| {' | '.join(map(escaped, row))} |" for row in (table.heads, *table.rows)]
    return [rows[0], f"| {' | '.join(marks)} |", *rows[1:]]


def _section(section: Section, level: str) -> list[str]:
    lines = [f"{level} {escaped(section.title)}", ""]
    lines += [f"> **{escaped(line)}**\n" for line in section.alarm]
    lines += [f"{escaped(line)}\n" for line in section.lines]
    if section.absent:
        lines += [escaped(section.absent), ""]
    if section.code:
        fence = "`" * (1 + max(2, *map(len, re.findall("`+", section.code)), 2))
        lines += [fence, section.code, fence, ""]
    for table in section.tables:
        if table.caption:
            lines += [f"**{escaped(table.caption)}**", ""]
        lines += [*markdown_table(table), ""]
    return lines
