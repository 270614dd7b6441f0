"""Options that several commands share."""

from __future__ import annotations

from typing import Annotated

import typer

JsonOption = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]
DebugOption = Annotated[bool, typer.Option("--debug", help="Show where an error comes from.")]
