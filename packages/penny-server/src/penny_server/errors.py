"""The one exception that ``penny`` prints as a sentence, and its exit codes."""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """Exit codes of the ``penny`` command."""

    OK = 0
    USAGE = 2
    """Unknown profile or key, or a value that does not fit."""
    ENVIRONMENT = 3
    """Port in use, GPU missing, wrong SGLang version, changed seam, server not reachable."""
    CHECKPOINT = 4
    SERVER = 5
    """The server failed while starting, or ended by itself."""
    INTERRUPTED = 130


class PennyError(Exception):
    """An error for the person at the keyboard.

    ``message`` says what was found and what was expected, ``hint`` what to do; both are full sentences.
    """

    def __init__(self, message: str, exit_code: int = ExitCode.USAGE, hint: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.exit_code = int(exit_code)
        self.hint = hint
