"""Start-up events: one JSON line each, appended by any process of a server to the run directory."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path
from typing import Any, Literal

RUN_DIR_ENV = "PENNY_RUN_DIR"
EVENTS_FILE = "events.jsonl"

EventState = Literal["begin", "progress", "end", "fail"]


def emit(phase: str, state: EventState, **detail: Any) -> None:
    """Appends ``{"t", "pid", "phase", "state", "detail"}`` to ``$PENNY_RUN_DIR/events.jsonl``.

    ``t`` is in seconds since the epoch. One O_APPEND write per event, so that lines of several processes never
    mix. Without ``PENNY_RUN_DIR`` in the environment it does nothing.
    """
    run_dir = os.environ.get(RUN_DIR_ENV)
    if not run_dir:
        return
    event = {"t": time.time(), "pid": os.getpid(), "phase": phase, "state": state, "detail": detail}
    line = (json.dumps(event) + "\n").encode()
    file = os.open(Path(run_dir) / EVENTS_FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, line)
    finally:
        os.close(file)
