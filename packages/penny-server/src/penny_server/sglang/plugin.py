"""The entry point in ``sglang.srt.plugins``: applies the seams of the features asked for, or ends the process.

Without ``PENNY_FEATURES`` in the environment it does nothing, so that a plain ``sglang serve`` stays stock.
SGLang only logs a plugin's exceptions and a hook's failures; this one ends the process with a sentence instead.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import sys
from pathlib import Path

from penny_server.events import emit
from penny_server.sglang.registry import ACTIVE_FILE, check_seams, seams_of
from penny_server.sglang.seam import Role, Seam, SeamError

FEATURES_ENV = "PENNY_FEATURES"
EXIT_ENVIRONMENT = 3


def requested_features() -> tuple[str, ...]:
    """The features named by ``PENNY_FEATURES`` (comma separated)."""
    return tuple(f for f in os.environ.get(FEATURES_ENV, "").split(",") if f)


def process_role() -> Role:
    """Which of SGLang's processes this is: ``main``, ``scheduler`` or ``detokenizer``."""
    if multiprocessing.parent_process() is None:
        return "main"
    return "scheduler" if "sglang.srt.managers.scheduler" in sys.modules else "detokenizer"


def apply(seams: tuple[Seam, ...]) -> None:
    """Applies the seams through SGLang's HookRegistry and proves each one; raises SeamError."""
    from sglang.srt.plugins.hook_registry import HookRegistry, HookType

    for seam in seams:
        if seam.kind == "set":
            seam.hook()
        else:
            HookRegistry.register(seam.target, seam.hook, HookType(seam.kind))
    HookRegistry.apply_hooks()
    for seam in seams:
        if not seam.probe():
            raise SeamError(
                f"Seam {seam.name} did not take: {seam.target} shows no effect of it ({seam.summary})."
            )


_called = False


def require_loaded() -> None:
    """Raises SeamError when features were asked for and SGLang did not call `load`: it skips a plugin that
    ``SGLANG_PLUGINS`` does not name, and only logs one that cannot be imported."""
    if requested_features() and not _called:
        allowed = os.environ.get("SGLANG_PLUGINS")
        why = f"SGLANG_PLUGINS is {allowed!r} and must name penny" if allowed else "the log says why"
        raise SeamError(f"SGLang did not load the plugin penny, so no seam is active: {why}.")


def load() -> None:
    """Called by SGLang in the main, scheduler and detokenizer process."""
    global _called
    _called = True
    wanted = requested_features()
    if not wanted:
        return
    role = process_role()
    try:
        check_seams(wanted)
        mine = tuple(seam for seam in seams_of(wanted) if role in seam.roles)
        apply(mine)
    except Exception as error:  # noqa: BLE001 - SGLang would log it and serve without the seam
        message = str(error) if isinstance(error, SeamError) else f"Applying the seams failed: {error!r}."
        print(f"penny: {message}", file=sys.stderr, flush=True)
        emit("imports", "fail", message=message, exit_code=EXIT_ENVIRONMENT)
        os._exit(EXIT_ENVIRONMENT)
    record_active(role, mine)


def record_active(role: Role, seams: tuple[Seam, ...]) -> None:
    """Appends the seams proven in this process to the run directory, if there is one."""
    run_dir = os.environ.get("PENNY_RUN_DIR")
    if run_dir:
        line = json.dumps({"pid": os.getpid(), "role": role, "seams": [s.name for s in seams]}) + "\n"
        with open(Path(run_dir) / ACTIVE_FILE, "a", encoding="utf-8") as file:
            file.write(line)
