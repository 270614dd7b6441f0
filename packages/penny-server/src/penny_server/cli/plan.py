"""``penny plan``: what fits, before anything is started."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from penny_server.cli.options import DebugOption, JsonOption, SetOption, WithoutOption

if TYPE_CHECKING:
    from penny_server.plan import Machine
    from penny_server.profiles import Launch


def plan(
    profile: Annotated[str, typer.Argument(help="A profile name (see `penny profiles`) or a .toml file.")],
    gpu: Annotated[str | None, typer.Option(help="A GPU by name, such as rtx-pro-6000 or h200.")] = None,
    vram: Annotated[
        str | None, typer.Option(help="Memory instead of a GPU: what CUDA reports, such as 94.97GiB.")
    ] = None,
    gpus: Annotated[int, typer.Option(min=1, help="How many GPUs there are.")] = 1,
    device: Annotated[
        Literal["auto", "cpu", "cuda"],
        typer.Option(help="auto plans for a GPU if the profile has one, or if --gpu or --vram says so."),
    ] = "auto",
    config: Annotated[
        Path | None,
        typer.Option(help="config.json of the model, or its folder; there is one for each profile."),
    ] = None,
    draft_config: Annotated[
        Path | None, typer.Option(help="config.json of the draft model, or its folder.")
    ] = None,
    set_: SetOption = None,
    without: WithoutOption = None,
    as_json: JsonOption = False,
    debug: DebugOption = False,
) -> None:
    """Work out from a config.json what pool PROFILE gets and where the memory goes; needs no GPU."""
    from penny_server.cli.resolving import Asked, launch_of
    from penny_server.plan import make_plan, settings_of, with_block
    from penny_server.plan.choose import choose_source, device_of

    wanted = device_of(profile, device, gpu is not None or vram is not None)
    asked = Asked(profile, wanted, settings=set_ or [], without=without or [], dry=True)
    found, launch, _ = launch_of(asked)
    machine = _machine(launch, gpu, vram)
    source, label = choose_source(found, launch, config, draft_config)
    settings = with_block(source, replace(settings_of(launch), gpus=gpus))
    made = make_plan(source, settings, machine)
    if as_json:
        from penny_server.plan.report import report

        print(json.dumps(report(made, found.name, label), indent=2))
        return
    from penny_server.cli import output
    from penny_server.plan.render import show

    title = f"{found.name} on {'each of ' + str(gpus) + ' x ' if gpus > 1 else ''}{machine.name}, sizes from {label}"
    show(made, title, output.console(), output.table("memory", "size", "how known"), output.table("", "", ""))


def _machine(launch: Launch, gpu: str | None, vram: str | None) -> Machine:
    from penny_server import plan
    from penny_server.errors import ExitCode, PennyError

    if gpu is not None and vram is not None:
        raise PennyError(
            "--gpu and --vram both say how much memory there is; give one of them.", ExitCode.USAGE
        )
    if launch.device == "cpu":
        import psutil

        return plan.cpu(plan.memory(vram) if vram else psutil.virtual_memory().available)
    if vram is not None:
        return plan.of_size(plan.memory(vram), launch.compute_capability)
    return plan.gpu(gpu or plan.DEFAULT_GPU)
