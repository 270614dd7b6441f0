"""``penny seams``: the hooks into SGLang and whether they fit the installed one."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from penny_server.cli.options import DebugOption, JsonOption
from penny_server.errors import ExitCode

STYLES = {"fits": "green", "active": "bold green", "changed": "red", "missing": "red"}


def seams(
    run_dir: Annotated[
        Path | None, typer.Option(help="Run folder of a server: shows which seams it has proven active.")
    ] = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List every hook into SGLang with its state; exit code 3 when one does not fit."""
    from penny_server.sglang import seams_report

    report = seams_report(run_dir)
    broken = [seam for seam in report if seam.state in ("changed", "missing")]
    if as_json:
        print(json.dumps([asdict(seam) for seam in report], indent=2))
    else:
        from penny_server.cli import output

        console = output.console()
        table = output.table("seam", "feature", "kind", "state", "what it does, and to what")
        for seam in report:
            state = f"[{STYLES[seam.state]}]{seam.state}[/]"
            table.add_row(seam.name, seam.feature, seam.kind, state, f"{seam.summary}\n[dim]{seam.target}[/]")
        console.print(table)
        for seam in broken:
            console.print(
                f"[red]{seam.name}[/]: expected digest {seam.expected}, found {seam.found or 'none'} "
                f"for {seam.target}"
            )
    if broken:
        raise typer.Exit(int(ExitCode.ENVIRONMENT))
