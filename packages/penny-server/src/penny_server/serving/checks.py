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
    return check_weights(launch)


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
