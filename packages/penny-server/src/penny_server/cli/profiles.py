"""``penny profiles``: what can be served, what a profile consists of, and how two differ."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated

import typer

from penny_server.cli.options import (
    DebugOption,
    DeviceOption,
    DraftOption,
    JsonOption,
    ModelOption,
    SetOption,
    WithoutOption,
)

if TYPE_CHECKING:
    from penny_server.profiles import Launch

profiles = typer.Typer(help="List the profiles, show one, or compare two.", no_args_is_help=False)

NameArgument = Annotated[str, typer.Argument(help="A profile name or a .toml file.")]


@profiles.callback(invoke_without_command=True)
def list_(context: typer.Context, as_json: JsonOption = False, debug: DebugOption = False) -> None:
    """List the profiles, and on which device each would run here; `show` and `diff` look into them."""
    if context.invoked_subcommand is not None:
        return
    from penny_server.cli import output
    from penny_server.profiles import load_all
    from penny_server.serving.choose import runs_on
    from penny_server.serving.gpu import usable_gpus

    gpus = usable_gpus()
    rows = [(profile, runs_on(profile, gpus)) for profile in load_all()]
    if as_json:
        listed = [
            {
                "name": p.name,
                "summary": p.summary,
                "devices": list(p.devices),
                "here": here,
                "needs": list(p.needs),
            }
            for p, here in rows
        ]
        print(json.dumps(listed, indent=2))
        return
    table = output.table("profile", "here", "devices", "summary")
    for profile, here in rows:
        capability = ", ".join(profile.cuda.compute_capability) if profile.cuda else ""
        devices = ", ".join(profile.devices) + (f" {capability}" if capability else "")
        table.add_row(
            f"[bold]{profile.name}[/]",
            f"[green]{here}[/]" if here else "[dim]no[/]",
            devices,
            profile.summary,
        )
    output.console().print(table)


@profiles.command()
def show(
    name: NameArgument,
    origin: Annotated[bool, typer.Option("--origin", help="Say where each value comes from.")] = False,
    device: DeviceOption = "auto",
    model: ModelOption = None,
    draft: DraftOption = None,
    set_: SetOption = None,
    without: WithoutOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show every setting of a profile as it would be started here, penny.toml and PENNY_* variables included."""
    from rich.text import Text

    from penny_server.cli import output
    from penny_server.cli.resolving import Asked, launch_of
    from penny_server.profiles.compare import rows

    asked = Asked(name, device, set_ or [], without or [], model=model, draft=draft, dry=True)
    listed = rows(launch_of(asked)[1])
    if as_json:
        print(json.dumps([vars(row) for row in listed], indent=2))
        return
    table = output.table("setting", *(["from"] if origin else []), "value")
    for row in listed:
        table.add_row(row.key, *([Text(row.origin)] if origin else []), Text(row.value))
    output.console().print(table)


@profiles.command()
def diff(
    first: NameArgument,
    second: NameArgument,
    device: DeviceOption = "auto",
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Show the settings in which two profiles differ."""
    from rich.text import Text

    from penny_server.cli import output
    from penny_server.profiles.compare import differences

    launches = [_launch(name, device) for name in (first, second)]
    found = differences(*launches)
    if as_json:
        print(json.dumps([{"setting": key, first: a, second: b} for key, a, b in found], indent=2))
        return
    table = output.table("setting", first, second)
    for key, *values in found:
        table.add_row(key, *(Text("not set" if value is None else value) for value in values))
    output.console().print(table)


def _launch(name: str, device: str) -> Launch:
    from penny_server.cli.resolving import Asked, launch_of

    return launch_of(Asked(name, device, dry=True))[1]  # type: ignore[arg-type]
