"""The server process that ``penny serve`` starts: stock SGLang's HTTP server with start-up events.

Run as ``python -m penny_server.sglang.launch <SGLang arguments>``. It does what ``sglang serve`` does for a
language model, through the hand-over points that ``launch_server`` offers: a warm-up callable and a ready callback.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from penny_server.events import emit

EXIT_START_FAILED = 5


def _warm_up(server_args: Any) -> bool:
    """SGLang's own warm-up request between two events; returns whether it succeeded."""
    from sglang.srt.entrypoints.http_server import _execute_server_warmup

    emit("warm-up", "begin")
    done = bool(_execute_server_warmup(server_args))
    emit("warm-up", "end" if done else "fail")
    return done


def main(argv: list[str]) -> None:
    """Imports SGLang, applies the seams asked for and serves until the process is ended."""
    emit("imports", "begin")
    from sglang.srt.entrypoints.http_server import launch_server
    from sglang.srt.plugins import load_plugins
    from sglang.srt.server_args import prepare_server_args
    from sglang.srt.utils import kill_process_tree

    load_plugins()
    try:
        server_args = prepare_server_args(argv)
        server_args.resolve_once()
    except (ValueError, AssertionError) as error:
        emit(
            "imports", "fail", message=f"SGLang refuses these settings: {error}", exit_code=EXIT_START_FAILED
        )
        raise
    try:
        launch_server(
            server_args,
            execute_warmup_func=_warm_up,
            launch_callback=lambda: emit("ready", "begin", url=server_args.url()),
        )
    finally:
        kill_process_tree(os.getpid(), include_parent=False)


if __name__ == "__main__":
    main(sys.argv[1:])
