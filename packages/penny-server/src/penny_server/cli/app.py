"""All commands of ``penny``. Importing this must stay fast: no torch, SGLang or transformers."""

from __future__ import annotations

from typing import Any

import typer
from typer.core import TyperGroup

from penny_server.cli.chat import chat
from penny_server.cli.doctor import doctor
from penny_server.cli.plan import plan
from penny_server.cli.profiles import profiles
from penny_server.cli.seams import seams
from penny_server.cli.serve import serve
from penny_server.cli.status import status, stop
from penny_server.cli.version import version
from penny_server.errors import ExitCode


class _Group(TyperGroup):
    """Ends with exit code 130 on Ctrl-C, on every version of the libraries below."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt:
            raise SystemExit(ExitCode.INTERRUPTED) from None


app = typer.Typer(
    cls=_Group,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
    help="Serve Qwen3.8 on stock SGLang, and talk to it.",
)
for command in (serve, plan, doctor, status, stop, chat, seams, version):
    app.command()(command)
app.add_typer(profiles, name="profiles")
