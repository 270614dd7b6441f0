"""`penny-bench demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console

from penny_bench import __version__
from penny_bench.demo.engine import Engine
from penny_bench.demo.load import demo_load
from penny_bench.errors import BenchError
from penny_bench.load import RunPlan, Slo
from penny_bench.mock import running
from penny_bench.once import Target, run_once
from penny_bench.report import html, parse_document, print_run, report_of
from penny_bench.report.document import json_text
from penny_bench.report.files import check_folder, write_text

PAGES = {"/server_info": {"version": "demo", "model_path": "make-believe", "speculative_algorithm": "NEXTN"}}
NOTE = "This is the demo: a make-believe server with a programmed timeline, no model and no GPU at work."


def demo(
    html_file: Annotated[Path, typer.Option("--html", help="Where the page is written.")] = Path(
        "penny-bench-demo.html"
    ),
    json_file: Annotated[Path | None, typer.Option("--json", help="Keep the evidence too.")] = None,
    seconds: Annotated[float, typer.Option(help="How long it runs, about.")] = 40.0,
    seed: Annotated[int, typer.Option(help="Of arrivals, prompts and the server.")] = 0,
) -> None:
    """Show what a report looks like: a short run against a make-believe server on this machine.

    One request fails on purpose. Exit status: 0 written, 2 something stopped it.
    """
    check_folder(html_file, "--html")
    check_folder(json_file, "--json")
    if not 5 <= seconds <= 600:
        raise BenchError(f"--seconds is {seconds:g}; give 5 to 600.")
    plan = RunPlan(load=demo_load(seconds, seed), seed=seed, slo=Slo(ttft=1.0, tpot=0.05))
    with running(Engine(seed), PAGES) as mock:
        document = run_once(Target(mock.url), plan, seed, notes=(NOTE,), show=Console(stderr=True))
    console = Console()
    print_run(document, console)
    text = json_text(document, indent=None)
    if json_file:
        write_text(json_file, text)
    name = json_file.name if json_file else "demo.json"
    made = report_of(parse_document(name, text.encode("utf-8")))
    write_text(html_file, html("Demo of penny-bench", [made], __version__))
    console.print(f"The report is in {html_file}; open it in a browser.", markup=False, soft_wrap=True)
