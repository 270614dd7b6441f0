"""``penny chat``: a conversation in the terminal."""

from __future__ import annotations

from typing import Annotated

import typer

from penny_server.cli.options import DebugOption
from penny_server.errors import ExitCode, PennyError

DEFAULT_URL = "http://127.0.0.1:8001"


def chat(
    url: Annotated[
        str, typer.Option(envvar="PENNY_URL", help="Address of an OpenAI-compatible server.")
    ] = DEFAULT_URL,
    model: Annotated[str | None, typer.Option(help="Model name; by default the server's first.")] = None,
    system: Annotated[str, typer.Option(help="System prompt.")] = "",
    max_tokens: Annotated[int | None, typer.Option(min=1, help="Longest answer in tokens.")] = None,
    temperature: Annotated[
        float | None, typer.Option(min=0.0, help="Sampling temperature; 0 is greedy. Default: the server's.")
    ] = None,
    no_think: Annotated[bool, typer.Option("--no-think", help="Ask the model not to think first.")] = False,
    debug: DebugOption = False,
) -> None:
    """Talk to a server: streaming answers, history, /help for commands; reads questions from a pipe too."""
    from rich.console import Console

    from penny_server.chat.client import Client, Sampling
    from penny_server.chat.repl import converse
    from penny_server.chat.session import Session
    from penny_server.nearest import did_you_mean

    with Client(url) as client:
        served = client.models()
        if model is not None and model not in served:
            raise PennyError(
                f"The server at {client.url} does not serve {model!r}. {did_you_mean(model, served)}".strip(),
                ExitCode.USAGE,
            )
        sampling = Sampling(max_tokens, temperature, False if no_think else None)
        code = converse(client, Session(model or served[0], sampling, system), Console())
    raise typer.Exit(int(code))
