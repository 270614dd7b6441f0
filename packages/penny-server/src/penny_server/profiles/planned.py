"""Features that profiles name and that are not built yet, each with what is missing and what stock does instead."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from penny_server.errors import ExitCode, PennyError

PLANNED: Mapping[str, str] = {
    "cache-store": (
        "prefix state on disk as verified bundles (stock's NIXL back end cannot store Flash-Next's recurrent state and "
        "checks nothing it reads)"
    ),
    "chat-template": "the corrected chat template, pinned by its digest (stock takes the checkpoint's own)",
    "media-device": "image processing on another GPU than the model's (stock uses the CPU or the model's GPU)",
    "online-fp8": "FP8 for the BF16 projections of an NVFP4 checkpoint, made while loading (stock leaves them BF16)",
    "ple-nvme": "n-gram tables read from an NVMe drive (stock's file back end needs a GPU that shares host memory)",
    "recover-ssm": (
        "recurrent state recomputed after verification instead of stored for each draft token (stock keeps a pool of "
        "intermediate states)"
    ),
}
"""What is missing, by the name that profiles use. A feature that gets built leaves this table."""


def refuse_unbuilt(profile: str, needs: Iterable[str]) -> None:
    """Raises PennyError (environment) that names the features of ``needs``; they are all not built yet."""
    names = list(needs)
    if not names:
        return
    what = "; ".join(f"{name}: {PLANNED[name]}" for name in names)
    raise PennyError(
        f"The profile {profile} needs {', '.join(names)}, which this version of penny-server does not have: {what}.",
        ExitCode.ENVIRONMENT,
        f"Look at it with --dry-run, or start it without: --without {','.join(names)}",
    )
