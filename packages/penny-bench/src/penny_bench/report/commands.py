"""`penny-bench report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from penny_bench import __version__
from penny_bench.report.files import check_folder, write_text
from penny_bench.report.html import html
from penny_bench.report.markdown import markdown
from penny_bench.report.read import read_document
from penny_bench.report.sections import reports_of


def report(
    files: Annotated[
        list[Path], typer.Argument(help="Documents of run, decode or compare, made with --json.")
    ],
    html_file: Annotated[Path | None, typer.Option("--html", help="Write one HTML file with plots.")] = None,
    markdown_file: Annotated[
        Path | None, typer.Option("--markdown", help="Write Markdown without pictures.")
    ] = None,
) -> None:
    """Turn result documents into a page: one HTML file that needs no network, or Markdown.

    Without --html and --markdown the Markdown is printed. Exit status: 0 written, 2 a document cannot be read.
    """
    check_folder(html_file, "--html")
    check_folder(markdown_file, "--markdown")
    documents = [read_document(path) for path in files]
    made = reports_of(documents)
    title = made[0].title if len(made) == 1 else f"{len(documents)} results"
    if html_file:
        write_text(html_file, html(title, made, __version__))
    text = markdown(title, made)
    if markdown_file:
        write_text(markdown_file, text)
    if not html_file and not markdown_file:
        typer.echo(text, nl=False)
