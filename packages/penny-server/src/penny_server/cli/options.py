"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")]
DeviceOption = Annotated[
    Literal["auto", "cpu", "cuda"],
    typer.Option(help="auto takes a GPU that fits the profile if there is one."),
]
ModelOption = Annotated[
    Path | None, typer.Option(help="Checkpoint folder to serve instead of the profile's.")
]
DraftOption = Annotated[
    Path | None, typer.Option(help="Checkpoint folder of the draft model, for profiles that need one.")
]
SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Change an SGLang argument, an option of the profile, or env.NAME; may be repeated.",
    ),
]
WithoutOption = Annotated[
    list[str] | None,
    typer.Option(
        metavar="FEATURE", help="Start without a feature that is not built yet; commas or repeated."
    ),
]
HostOption = Annotated[str | None, typer.Option(help="Address to listen on; the profile has a default.")]
PortOption = Annotated[
    int | None, typer.Option(min=1, max=65535, help="Port to listen on; the profile has a default.")
]
