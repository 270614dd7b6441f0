"""``penny status`` and ``penny stop``: the servers of this machine."""

from __future__ import annotations

import json
import time
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penny_server.cli.options import DebugOption, JsonOption
from penny_server.errors import ExitCode, PennyError

if TYPE_CHECKING:
    from penny_server.serving.live import LiveState
    from penny_server.serving.runs import Run

RunsOption = Annotated[
    Path | None, typer.Option("--log-dir", help="Folder of the run folders, if `penny serve` was given one.")
]
STYLES = {"ready": "green", "starting": "cyan", "stopping": "yellow", "failed": "red", "lost": "red"}


def status(
    ended: Annotated[bool, typer.Option("--all", help="Also those that have ended.")] = False,
    backends: Annotated[
        bool, typer.Option("--backends", help="Which implementation each operation got.")
    ] = False,
    log_dir: RunsOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """List the servers of this machine; exit code 3 when none runs."""
    from penny_server.serving.live import live_state
    from penny_server.serving.runs import list_runs, run_backends

    runs = [run for run in list_runs(log_dir) if ended or run.alive]
    states = {run.folder: live_state(run.url) for run in runs if run.state in ("ready", "stopping")}
    chosen = {run.folder: run_backends(run) for run in runs} if backends else {}
    if as_json:
        print(json.dumps([_document(run, states.get(run.folder), chosen) for run in runs], indent=2))
    else:
        _print(runs, states)
        _print_backends(runs, chosen)
    if not any(run.alive for run in runs):
        raise typer.Exit(int(ExitCode.ENVIRONMENT))


def stop(
    which: Annotated[
        str | None, typer.Argument(help="Profile, port or run folder; not needed for one.")
    ] = None,
    every: Annotated[bool, typer.Option("--all", help="Stop all of them.")] = False,
    now: Annotated[bool, typer.Option("--now", help="Cut open streams.")] = False,
    timeout: Annotated[float, typer.Option(min=0, help="Seconds to wait for the end.")] = 120.0,
    log_dir: RunsOption = None,
    debug: DebugOption = False,
) -> None:
    """Stop a server: no new requests, open streams end first (for as long as its `--grace` allows)."""
    from penny_server.serving.runs import choose_run, list_runs, stop_run

    runs = list_runs(log_dir)
    chosen = [run for run in runs if run.alive] if every else [choose_run(runs, which)]
    if not chosen:
        raise PennyError("No server runs.", ExitCode.ENVIRONMENT)
    for run in chosen:
        typer.echo(f"Stopping {run.profile} on {run.url}.")
        if not stop_run(run, now, timeout):
            raise PennyError(
                f"{run.profile} on {run.url} (pid {run.pid}) still runs after {timeout:g} s.",
                ExitCode.SERVER,
                "Cut its open streams with penny stop --now.",
            )
    typer.echo("Stopped; nothing is left running.")


def _document(run: Run, state: LiveState | None, backends: dict[Path, dict[str, str]]) -> dict[str, Any]:
    more = {"backends": backends[run.folder]} if run.folder in backends else {}
    return {**run.document(), "live": asdict(state) if state else None, **more}


def _print_backends(runs: list[Run], backends: dict[Path, dict[str, str]]) -> None:
    from penny_server.cli import output

    for run in runs:
        if found := backends.get(run.folder):
            table = output.table(f"operation of {run.profile} on {run.url}", "implementation")
            for operation, backend in found.items():
                table.add_row(operation, backend)
            output.console().print(table)


def _print(runs: list[Run], states: dict[Path, LiveState]) -> None:
    from penny_server.cli import output

    console = output.console()
    if not runs:
        console.print("No server runs. Start one with: penny serve tiny-27b")
        return
    table = output.table("profile", "state", "since", "address", "requests", "pool", "run folder")
    for run in runs:
        state = states.get(run.folder)
        word = run.state if state is None or state.healthy else "not answering"
        style = STYLES.get(word, "red" if word == "not answering" else "dim")
        table.add_row(
            run.profile,
            f"[{style}]{word}[/]",
            _age(time.time() - (run.ended or run.ready or run.started)),
            run.url,
            _requests(state),
            _pool(state),
            str(run.folder),
        )
    console.print(table)
    for run in runs:
        for note in (*run.notes, *_alarms(states.get(run.folder))):
            console.print(f"{run.profile}: {note}", markup=False)


def _alarms(state: LiveState | None) -> tuple[str, ...]:
    if state is None or not state.draft_alarm:
        return ()
    return ("The acceptance of drafts is not what was calibrated; server.log in the run folder says how.",)


def _requests(state: LiveState | None) -> str:
    if state is None or state.running is None:
        return ""
    rate = "" if not state.running or state.rate is None else f", {state.rate:,.0f} tok/s"
    return f"{state.running} running, {state.queued or 0} waiting{rate}"


def _pool(state: LiveState | None) -> str:
    if state is None or state.pool_tokens is None:
        return ""
    used = "" if state.used is None else f"{100 * state.used:.0f} % of "
    return f"{used}{state.pool_tokens:,} tokens"


def _age(seconds: float) -> str:
    for unit, size in (("d", 86400), ("h", 3600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.1f} {unit}"
    return f"{seconds:.0f} s"
