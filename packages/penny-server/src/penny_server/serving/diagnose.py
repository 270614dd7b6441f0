"""Why a server process ended: its own words if it left any, else what its log says."""

from __future__ import annotations

import re
import signal
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from penny_server.errors import ExitCode, PennyError
from penny_server.serving.processes import SIGNAL_BASE

TAIL_LINES = 15
TAIL_BYTES = 256 * 1024
CHILD_FAILED = "Received sigquit from a child process"
"""SGLang's main process logs this and kills itself when one of its processes fails."""

KNOWN_ENDINGS: tuple[tuple[str, int, str, str], ...] = (
    (
        r"Not enough memory\. Please try to increase --mem-fraction-static"
        r"|Loaded weights leave no GPU memory for the KV cache",
        ExitCode.SERVER,
        "The KV pool does not fit into the memory that is left after the weights.",
        "Free memory on the device, raise it with --set mem_fraction_static=0.9, "
        "or ask for less with --set max_running_requests=N --set max_mamba_cache_size=N.",
    ),
    (
        r"torch\.OutOfMemoryError|CUDA out of memory|DefaultCPUAllocator: can't allocate memory|MemoryError",
        ExitCode.SERVER,
        "The server ran out of memory while starting.",
        "Ask for a smaller pool: --set max_total_tokens=N --set max_mamba_cache_size=N.",
    ),
    (
        r"address already in use|Address already in use",
        ExitCode.ENVIRONMENT,
        "Another process took the port while the server was starting.",
        "Choose another one with --port.",
    ),
    (r"^\S.*: error: (argument .*)$", ExitCode.USAGE, "SGLang does not take a setting: {0}.", ""),
    (
        r"Model architectures (\[.*?\]) are not supported",
        ExitCode.CHECKPOINT,
        "SGLang has no model class for the architecture {0} of this checkpoint.",
        "",
    ),
)


def log_tail(log: Path, lines: int = TAIL_LINES) -> list[str]:
    """The last ``lines`` lines of the log that say something (tracebacks underline with carets)."""
    return [line for line in _end_of(log).splitlines() if line.strip(" ^~")][-lines:]


def explain(returncode: int, log: Path, failure: Mapping[str, Any] | None) -> PennyError:
    """The error for a server that ended with ``returncode`` while starting.

    ``failure`` is the detail of its ``fail`` event, if it emitted one; without a message the log decides.
    """
    if failure and failure.get("message"):
        code = int(failure.get("exit_code", ExitCode.SERVER))
        return PennyError(str(failure["message"]), code, str(failure.get("hint", "")))
    text = _end_of(log)
    for pattern, code, message, hint in KNOWN_ENDINGS:
        if found := re.search(pattern, text, re.MULTILINE):
            return PennyError(message.format(*found.groups()), code, hint)
    raised = re.findall(r"^(?:\w+\.)*\w*(?:Error|Exception)\b.*", text, re.MULTILINE)
    last = f" Its last error: {raised[-1][:300]}" if raised else ""
    what = (
        "A process of the server failed"
        if CHILD_FAILED in text
        else f"The server process {_ending(returncode)}"
    )
    return PennyError(f"{what} while starting.{last}", ExitCode.SERVER)


def _ending(returncode: int) -> str:
    number = -returncode if returncode < 0 else returncode - SIGNAL_BASE
    if number not in set(signal.Signals):
        return f"ended with exit code {returncode}"
    name = signal.Signals(number).name
    killed = " (the system may have run out of memory)" if number == signal.SIGKILL else ""
    return f"was ended by {name}{killed}"


def _end_of(log: Path) -> str:
    try:
        with open(log, "rb") as file:
            file.seek(max(0, log.stat().st_size - TAIL_BYTES))
            return file.read().decode("utf-8", "replace")
    except FileNotFoundError:
        return ""
