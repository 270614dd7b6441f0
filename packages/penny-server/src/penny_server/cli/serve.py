"""``penny serve``: start an OpenAI-compatible server from a profile."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from penny_server.cli.options import DebugOption, JsonOption
from penny_server.errors import PennyError

if TYPE_CHECKING:
    from penny_server.profiles import Launch
    from penny_server.serving.display import Display


def serve(
    profile: Annotated[str, typer.Argument(help="A profile name (see `penny profiles`) or a .toml file.")],
    host: Annotated[str | None, typer.Option(help="Address to listen on; the profile has a default.")] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Port to listen on; the profile has a default.")
    ] = None,
    device: Annotated[
        Literal["auto", "cpu", "cuda"],
        typer.Option(help="auto takes a GPU that fits the profile if there is one."),
    ] = "auto",
    model: Annotated[
        Path | None, typer.Option(help="Checkpoint folder to serve instead of the profile's.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option(
            "--set", metavar="KEY=VALUE", help="Change an SGLang argument, or env.NAME; may be repeated."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Print the command that would be run, and stop.")
    ] = False,
    log_dir: Annotated[
        Path | None, typer.Option(help="Folder for run folders (default: ~/.local/state/pennyroyal/runs).")
    ] = None,
    grace: Annotated[
        float, typer.Option(min=0, help="Seconds that the server may take to end when stopped.")
    ] = 15.0,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Start an OpenAI-compatible server from PROFILE and keep it running until Ctrl-C."""
    started = time.time()
    try:
        launch = _resolve(profile, device, set_ or [], host, port, model, dry_run)
        if dry_run:
            _print_launch(launch, as_json)
            return
        from penny_server.serving.checks import check
        from penny_server.serving.rundir import create_run_dir
        from penny_server.serving.supervisor import serve as supervise

        report = check(launch)
        for warning in report.warnings:
            typer.echo(f"warning: {warning}", err=True)
        identity = f"{report.architecture}, {report.parameters / 1e6:,.1f} M parameters"
        run_dir = create_run_dir(launch, log_dir)
        code = supervise(launch, run_dir, _display(as_json), identity, started, grace)
    except PennyError as error:
        if as_json:
            failed = {"event": "failed", "message": error.message, "hint": error.hint}
            print(json.dumps(failed | {"exit_code": error.exit_code}), flush=True)
        raise
    raise typer.Exit(int(code))


def _resolve(
    name: str,
    device: Literal["auto", "cpu", "cuda"],
    settings: list[str],
    host: str | None,
    port: int | None,
    model: Path | None,
    dry_run: bool,
) -> Launch:
    from penny_server.profiles import load, load_all, parse_overrides, resolve
    from penny_server.serving.choose import choose_checkpoint, choose_device, surroundings
    from penny_server.serving.gpu import usable_gpus

    profile = load(name)
    overrides = parse_overrides(settings)
    # A dry run may be for another machine: a device that is named needs not be here.
    named = device if dry_run and device != "auto" else None
    chosen = named or choose_device(profile, device, usable_gpus(), load_all())
    checkpoint = choose_checkpoint(profile, model)
    return resolve(profile, chosen, checkpoint, surroundings(), overrides, host, port)


def _display(as_json: bool) -> Display:
    from rich.console import Console

    from penny_server.serving.display import JsonDisplay, LiveDisplay, PlainDisplay

    console = Console(highlight=False)
    if as_json:
        return JsonDisplay(console)
    return LiveDisplay(console) if console.is_terminal else PlainDisplay(console)


def _print_launch(launch: Launch, as_json: bool) -> None:
    if not as_json:
        print(launch.command(sys.executable))
        return
    resolved: dict[str, Any] = {
        "profile": launch.profile,
        "device": launch.device,
        "checkpoint": str(launch.checkpoint),
        "model": launch.model_name,
        "url": launch.url,
        "features": list(launch.features),
        "args": list(launch.args),
        "env": dict(launch.env),
        "command": launch.command(sys.executable),
    }
    print(json.dumps(resolved, indent=2))
