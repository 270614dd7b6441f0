"""`penny-bench history`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from penny_bench import __version__
from penny_bench.errors import BenchError
from penny_bench.history.folder import find
from penny_bench.history.page import history_document, history_report
from penny_bench.history.series import history as series_of
from penny_bench.history.text import print_history
from penny_bench.report import html, write_json
from penny_bench.report.files import check_folder, write_text


def history(
    paths: Annotated[
        list[Path], typer.Argument(help="Folders of results, searched to the bottom, or files.")
    ],
    metric: Annotated[
        str | None, typer.Option(help="Only these metrics, with commas between: aggregate,ttft_p50.")
    ] = None,
    json_file: Annotated[Path | None, typer.Option("--json", help="Write everything to this file.")] = None,
    html_file: Annotated[
        Path | None, typer.Option("--html", help="Write one HTML file with the trends.")
    ] = None,
) -> None:
    """Show how results have changed over time: one table for each workload, phase and metric.

    Results that differ in workload, model or GPU are different series. Exit status: 0 shown, 2 nothing found.
    """
    check_folder(json_file, "--json")
    check_folder(html_file, "--html")
    found = find(paths)
    series = series_of(found.entries)
    if metric:
        wanted = metric.split(",")
        kept = [each for each in series if each.key in wanted]
        if not kept:
            keys = ", ".join(dict.fromkeys(each.key for each in series))
            raise BenchError(f"No result has a metric {metric!r}; these are there: {keys}.")
        series = kept
    print_history(series, found.left_out, Console())
    if json_file:
        write_json(json_file, history_document(series, found.left_out, __version__))
    if html_file:
        write_text(html_file, html("History", [history_report(series, found.left_out)], __version__))
