"""The conversation loop on a terminal or through a pipe."""

from __future__ import annotations

import sys
import time
import unicodedata

from rich.console import Console

from penny_server.chat.client import Client, Piece, Usage
from penny_server.chat.commands import Leave, run
from penny_server.chat.session import Session
from penny_server.errors import ExitCode, PennyError

PROMPT = "> "


def printable(text: str) -> str:
    """``text`` without control characters, so that an answer cannot steer the terminal."""
    return "".join(c for c in text if c in "\n\t" or unicodedata.category(c) != "Cc")


def converse(client: Client, session: Session, console: Console) -> ExitCode:
    """Reads questions from the standard input and prints answers until the input ends or the person leaves.

    On a terminal Ctrl-C stops an answer, and leaves at the prompt. Otherwise the first one ends the command.
    A question that the server refuses is not kept; with piped input a refusal decides the exit code, and only
    answers go to the standard output.
    """
    interactive = sys.stdin.isatty()
    if interactive:
        import readline  # noqa: F401 - gives input() line editing and history

        console.print(f"[dim]{session.model} at {client.url}; /help lists the commands[/]", highlight=False)
    notes = console if interactive else Console(stderr=True)
    code = ExitCode.OK
    while (line := _next_line(interactive)) is not None:
        if not line.strip():
            continue
        try:
            if line.startswith("/"):
                _note(run(line.strip(), session), notes)
            else:
                stopped = answer(client, session, line, console, notes)
                if stopped and not interactive:
                    return ExitCode.INTERRUPTED
        except Leave:
            return code
        except PennyError as error:
            _note(f"error: {error.message}", notes, style="red")
            code = code if interactive else ExitCode.ENVIRONMENT
    if interactive:
        console.print()
    return code


def _next_line(interactive: bool) -> str | None:
    if not interactive:
        line = sys.stdin.readline()
        return line.rstrip("\n") if line else None
    try:
        return input(PROMPT)
    except EOFError:
        return None
    except KeyboardInterrupt:
        print()
        raise


def _note(text: str, console: Console, style: str = "dim") -> None:
    console.print(text, markup=False, highlight=False, emoji=False, soft_wrap=True, style=style)


def answer(client: Client, session: Session, question: str, console: Console, notes: Console) -> bool:
    """Streams one answer to ``console``, what it cost to ``notes``, and keeps the turn.

    Returns whether Ctrl-C stopped it.
    """
    said: list[str] = []
    usage: Usage | None = None
    stopped = False
    last_kind = ""
    began = time.monotonic()
    first = last = 0.0
    stream = client.answer(session.model, session.messages(question), session.sampling)
    try:
        for part in stream:
            if isinstance(part, Usage):
                usage = part
                continue
            last = time.monotonic()
            first = first or last
            if last_kind == "reasoning" and part.kind == "answer":
                console.print("\n")
            _show(part, console)
            last_kind = part.kind
            if part.kind == "answer":
                said.append(part.text)
    except KeyboardInterrupt:
        stopped = True
    finally:
        stream.close()  # type: ignore[attr-defined]
        if last_kind:
            console.print()
    if said or not stopped:
        session.keep(question, "".join(said))
    _note(_summary(usage, first - began, last - first, stopped), notes)
    return stopped


def _show(part: Piece, console: Console) -> None:
    style = "dim" if part.kind == "reasoning" else None
    console.print(
        printable(part.text), end="", style=style, markup=False, highlight=False, emoji=False, soft_wrap=True
    )


def _summary(usage: Usage | None, wait_s: float, stream_s: float, stopped: bool) -> str:
    parts = ["stopped"] if stopped else []
    if usage is not None:
        parts.append(f"{usage.completion} tokens")
        if usage.completion > 1 and stream_s > 0:
            parts.append(f"{(usage.completion - 1) / stream_s:.1f} tokens/s")
        if wait_s > 0:
            parts.append(f"first after {wait_s:.2f} s")
        if usage.cached:
            parts.append(f"{usage.cached} of {usage.prompt} prompt tokens cached")
    return "[" + ", ".join(parts or ["the server did not say how many tokens"]) + "]"
