"""The server process that ``penny serve`` starts: stock SGLang's HTTP server with start-up events.

Run as ``python -m penny_server.sglang.launch <SGLang arguments>``. It does what ``sglang serve`` does for a
language model, through the hand-over points that ``launch_server`` offers: a warm-up callable and a ready callback.
"""

from __future__ import annotations

import os
import sys
from typing import Any, NoReturn

from penny_server.events import emit
from penny_server.sglang.plugin import EXIT_ENVIRONMENT, requested_features, require_loaded
from penny_server.sglang.seam import SeamError
from penny_server.sglang.warmup import WarmUpError, warm_grammar

EXIT_USAGE = 2
EXIT_SERVER = 5


def _warm_up(server_args: Any) -> bool:
    """SGLang's own warm-up request, then a structured one; returns whether both succeeded."""
    from sglang.srt.entrypoints.http_server import _execute_server_warmup

    emit("warm-up", "begin")
    if not _execute_server_warmup(server_args):
        emit("warm-up", "fail")
        return False
    try:
        note = _warm_grammar(server_args)
    except WarmUpError as error:
        emit("warm-up", "fail", message=str(error), exit_code=EXIT_SERVER)
        return False
    emit("warm-up", "end", **note)
    return True


def _warm_grammar(server_args: Any) -> dict[str, str]:
    """Warms the grammar back end up if there is one; what the event shall say of it."""
    from sglang.srt.arg_groups.serving_hook import ssl_verify_of
    from sglang.srt.runtime_context import get_serving

    serving = get_serving()
    if server_args.grammar_backend in (None, "none") or serving.skip_tokenizer_init:
        return {}
    headers = {"Authorization": f"Bearer {serving.api_key}"} if serving.api_key else {}
    seconds = warm_grammar(
        server_args.url(), server_args.served_model_name, headers, ssl_verify_of(server_args)
    )
    return {"note": f"structured output in {seconds:.1f} s"}


def _refuse(message: str, exit_code: int) -> NoReturn:
    """Ends the process before anything is started, with the sentence where ``penny serve`` looks for it."""
    emit("imports", "fail", message=message, exit_code=exit_code)
    print(f"penny: {message}", file=sys.stderr, flush=True)
    sys.exit(exit_code)


def check_settings(settings: Any, features: tuple[str, ...]) -> None:
    """Raises ValueError for settings that SGLang takes and that a feature asked for does not work with."""
    if "seeds" in features and settings.sampling_backend != "pytorch":
        raise ValueError(
            f"the feature seeds needs sampling_backend pytorch, and this is {settings.sampling_backend}: the other "
            "samplers take no seeds."
        )
    if features and settings.tokenizer_worker_num > 1:
        raise ValueError(
            f"tokenizer_worker_num is {settings.tokenizer_worker_num}; SGLang loads no plugin in those workers, so "
            f"only 1 goes with the features {', '.join(features)}."
        )


def main(argv: list[str]) -> None:
    """Imports SGLang, applies the seams asked for and serves until the process is ended."""
    emit("imports", "begin")
    from sglang.srt.arg_groups.overrides import resolving_view
    from sglang.srt.entrypoints.http_server import launch_server
    from sglang.srt.plugins import load_plugins
    from sglang.srt.server_args import prepare_server_args
    from sglang.srt.utils import kill_process_tree

    load_plugins()
    try:
        require_loaded()
        server_args = prepare_server_args(argv)
        server_args.resolve_once()
        check_settings(resolving_view(server_args), requested_features())
    except SeamError as error:
        _refuse(str(error), EXIT_ENVIRONMENT)
    except (ValueError, AssertionError) as error:
        _refuse(f"SGLang refuses these settings: {error}", EXIT_USAGE)
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
