"""``penny serve``: start an OpenAI-compatible server from a profile."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penny_server.cli.options import (
    DebugOption,
    DeviceOption,
    DraftOption,
    HostOption,
    JsonOption,
    ModelOption,
    PortOption,
    SetOption,
    WithoutOption,
)
from penny_server.errors import PennyError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from penny_server.profiles import Launch, Profile
    from penny_server.serving.display import Display
    from penny_server.serving.gpu import Gpu
    from penny_server.serving.identity import Identity
    from penny_server.serving.supervisor import Expected


def serve(
    profile: Annotated[
        str, typer.Argument(help="A profile name (see `penny profiles`) or a .toml file.")
    ] = "flash-next-frspec",
    host: HostOption = None,
    port: PortOption = None,
    device: DeviceOption = "auto",
    model: ModelOption = None,
    draft: DraftOption = None,
    set_: SetOption = None,
    without: WithoutOption = None,
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
    """Start an OpenAI-compatible server from PROFILE and keep it running until Ctrl-C.

    Settings come from the profile, penny.toml (in ~/.config/pennyroyal, then in this folder), PENNY_* variables and
    the options here; the later wins.
    """
    started = time.time()
    try:
        from penny_server.cli.resolving import Asked, launch_of

        asked = Asked(profile, device, set_ or [], without or [], host, port, model, draft, dry_run)
        loaded, launch, gpus = launch_of(asked)
        if dry_run:
            _print_launch(launch, as_json)
            return
        from penny_server.serving.checks import check
        from penny_server.serving.fit import check_fit, check_model_fit
        from penny_server.serving.identity import Identity, folders
        from penny_server.serving.rundir import create_run_dir
        from penny_server.serving.supervisor import serve as supervise

        check_fit(loaded, launch, gpus)
        report = check(launch)
        check_model_fit(launch, report.bytes, gpus)
        for warning in report.warnings:
            typer.echo(f"warning: {warning}", err=True)
        what = f"{report.architecture}, {report.parameters / 1e6:,.1f} M parameters"
        expected = _expected(loaded, launch, gpus, Identity(what, folders(launch)))
        run_dir = create_run_dir(launch, log_dir)
        code = supervise(launch, run_dir, _display(as_json), expected, started, grace)
    except PennyError as error:
        if as_json:
            failed = {"event": "failed", "message": error.message, "hint": error.hint}
            print(json.dumps(failed | {"exit_code": error.exit_code}), flush=True)
        raise
    raise typer.Exit(int(code))


def _expected(profile: Profile, launch: Launch, gpus: Sequence[Gpu], identity: Identity) -> Expected:
    from penny_server.serving.planning import plan_of
    from penny_server.serving.supervisor import Expected

    try:
        return Expected(identity, plan_of(profile, launch, gpus))
    except PennyError as error:
        return Expected(identity, unplanned=error.message)


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
        if launch.needs:
            typer.echo(f"note: not built yet, so this cannot be started: {', '.join(launch.needs)}", err=True)
        return
    resolved: dict[str, Any] = {
        "profile": launch.profile,
        "device": launch.device,
        "compute_capability": launch.compute_capability,
        "checkpoint": str(launch.checkpoint),
        "model": launch.model_name,
        "url": launch.url,
        "features": list(launch.features),
        "needs": list(launch.needs),
        "options": dict(launch.options),
        "args": list(launch.args),
        "env": dict(launch.env),
        "command": launch.command(sys.executable),
    }
    print(json.dumps(resolved, indent=2))
