"""The folder of one server run: its log, its start-up events and what was started."""

from __future__ import annotations

import json
import os
import time
from dataclasses import dataclass
from pathlib import Path

from penny_server.errors import ExitCode, PennyError
from penny_server.events import EVENTS_FILE, RUN_DIR_ENV
from penny_server.profiles import Launch

PRIVATE = 0o700


@dataclass(frozen=True)
class RunDir:
    """Paths in one run folder. Only its owner can read it: the log may hold prompts."""

    path: Path

    @property
    def log(self) -> Path:
        """What the server processes print."""
        return self.path / "server.log"

    @property
    def events(self) -> Path:
        """Start-up events, one JSON line each (see `penny_server.events`)."""
        return self.path / EVENTS_FILE


def runs_folder() -> Path:
    """``$XDG_STATE_HOME/pennyroyal/runs``, by default under ``~/.local/state``."""
    state = os.environ.get("XDG_STATE_HOME")
    base = Path(state) if state and os.path.isabs(state) else Path.home() / ".local" / "state"
    return base / "pennyroyal" / "runs"


def create_run_dir(launch: Launch, base: Path | None = None) -> RunDir:
    """Creates ``<base>/<time>-<profile>-<pid>`` with a ``launch.json``; raises PennyError (environment)."""
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{launch.profile}-{os.getpid()}"
    path = (base or runs_folder()).expanduser().absolute() / name
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.mkdir(mode=PRIVATE)
        started: dict[str, object] = {"profile": launch.profile, "device": launch.device, "url": launch.url}
        started |= {"args": list(launch.args), "env": dict(launch.env)}
        (path / "launch.json").write_text(json.dumps(started, indent=1) + "\n", encoding="utf-8")
    except OSError as error:
        raise PennyError(
            f"The run folder {path} cannot be made: {error.strerror}.",
            ExitCode.ENVIRONMENT,
            "Choose a folder that you may write to with --log-dir.",
        ) from error
    return RunDir(path)


def run_env(run_dir: RunDir) -> dict[str, str]:
    """The environment that makes the server's processes write their events to ``run_dir``."""
    return {RUN_DIR_ENV: str(run_dir.path)}
