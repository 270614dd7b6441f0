"""The report as one HTML file that needs no network."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup
from plotly.offline import get_plotlyjs  # type: ignore[import-untyped]

from penny_bench.report.section import Figure, Report


def html(title: str, reports: Sequence[Report], version: str) -> str:
    """The page. All that comes from documents is escaped; its policy forbids every connection.

    Args:
        title: of the page.
        reports: one for each document.
        version: of penny-bench, which made it.
    """
    page = Environment(
        loader=PackageLoader("penny_bench.report", "page"), autoescape=True, undefined=StrictUndefined
    ).get_template("page.html")
    return page.render(
        title=title,
        reports=reports,
        version=version,
        style=_own("style.css"),
        script=_own("page.js"),
        plotly=Markup(get_plotlyjs()),  # it is plotly's own file
        figures=script_json(_figures(reports)),
    )


def script_json(value: Any) -> Markup:
    """JSON that is safe within a script element: nothing in it can end the element or begin a comment."""
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<>&\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return Markup(text)  # escaped above


def _own(name: str) -> Markup:
    text = files("penny_bench.report").joinpath("page", name).read_text(encoding="utf-8")
    return Markup(text.strip())  # ships with this package


def _figures(reports: Sequence[Report]) -> dict[str, Any]:
    """By the id of their element, in the order of the page."""
    return {
        f"d{i}-{section.key}-f{j}": _figure(figure)
        for i, report in enumerate(reports, start=1)
        for section in report.sections
        for j, figure in enumerate(section.figures, start=1)
    }


def _figure(figure: Figure) -> dict[str, Any]:
    return {
        "data": figure.data,
        "layout": figure.layout,
        "choices": [choice.data for choice in figure.choices],
    }
