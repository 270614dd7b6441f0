"""Subcommands that are imported when they are called."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path

import typer

MODULES = {
    "bench": "Measure the store on this drive.",
    "torture": "Try to break the store: kills, power cuts, damage.",
}
"""Subcommands and what the list of commands says; each is `app`, a `typer.Typer`, in `penny_cache.<name>.command`."""


def add(app: typer.Typer) -> None:
    """Give `app` those of the subcommands that this package has."""
    for name, text in MODULES.items():
        if (Path(__file__).parents[1] / name / "command.py").is_file():
            settings = {"allow_extra_args": True, "ignore_unknown_options": True}
            app.command(name, help=text, add_help_option=False, context_settings=settings)(_runner(name))


def _runner(name: str) -> Callable[[typer.Context], None]:
    def run(ctx: typer.Context) -> None:
        import_module(f"penny_cache.{name}.command").app(args=ctx.args, prog_name=f"penny-cache {name}")

    return run
