"""Runs the command line and prints what went wrong."""

from __future__ import annotations

import sys
import traceback

from rich.console import Console
from rich.text import Text

from penny_server.cli.app import app
from penny_server.errors import PennyError

EXIT_BUG = 1


def run(argv: list[str]) -> int:
    """Runs ``penny`` with ``argv`` and returns its exit code."""
    try:
        app(argv, prog_name="penny")
    except PennyError as error:
        if "--debug" in argv:
            traceback.print_exc()
        report(error)
        return error.exit_code
    except Exception as error:  # noqa: BLE001 - the last resort: a sentence instead of a traceback
        if "--debug" in argv:
            traceback.print_exc()
        report(
            PennyError(
                f"penny failed in an unexpected way: {type(error).__name__}: {error}",
                hint="Run it again with --debug to see where, and report that.",
            )
        )
        return EXIT_BUG
    except SystemExit as exit_:
        return exit_.code if isinstance(exit_.code, int) else 0 if exit_.code is None else EXIT_BUG
    return 0


def report(error: PennyError) -> None:
    """Prints ``error`` to the standard error."""
    console = Console(file=sys.stderr, highlight=False, soft_wrap=not sys.stderr.isatty())
    console.print(Text.assemble(("error: ", "bold red"), error.message))
    if error.hint:
        console.print(Text(error.hint, style="dim" if sys.stderr.isatty() else ""))
