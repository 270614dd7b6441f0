"""What is checked before a server process is started; none of it imports SGLang or torch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penny_server.errors import ExitCode, PennyError
from penny_server.profiles import Launch
from penny_server.serving.port import check_port

if TYPE_CHECKING:
    from penny_models import CheckpointReport


def check(launch: Launch) -> CheckpointReport:
    """Checks SGLang's version and seams, the port and the checkpoint; raises PennyError."""
    check_integration(launch.features)
    check_port(launch.host, launch.port)
    report = check_weights(launch)
    check_draft_weights(launch)
    return report


def check_integration(features: tuple[str, ...]) -> None:
    """Raises PennyError (environment) for another SGLang than the pinned one or a seam that does not fit."""
    from penny_server.sglang import SeamError, check_seams

    try:
        check_seams(features)
    except SeamError as error:
        raise PennyError(str(error), ExitCode.ENVIRONMENT) from error


def check_weights(launch: Launch) -> CheckpointReport:
    """What the checkpoint is; raises PennyError (checkpoint) when it cannot be served."""
    from penny_models import CheckpointError, check_checkpoint

    try:
        return check_checkpoint(launch.checkpoint)
    except CheckpointError as error:
        raise PennyError(str(error), ExitCode.CHECKPOINT) from error


def check_draft_weights(launch: Launch) -> CheckpointReport | None:
    """What the DFlash draft is; None without one. Raises PennyError (checkpoint) when it cannot be served.

    Stock skips tensors that it does not know, so that those that they should be stay as they were allocated.
    """
    from penny_models import CheckpointError, check_checkpoint

    given = launch.settings.get("speculative_draft_model_path")
    if launch.settings.get("speculative_algorithm") != "DFLASH" or not given:
        return None
    try:
        report = check_checkpoint(str(given))
    except CheckpointError as error:
        raise PennyError(str(error), ExitCode.CHECKPOINT) from error
    if report.warnings:
        raise PennyError(
            f"The draft in {given} is not that of its config.json: {report.warnings[0]}",
            ExitCode.CHECKPOINT,
            "Take the draft that its config.json belongs to.",
        )
    return report
