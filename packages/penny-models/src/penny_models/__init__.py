"""The two Qwen3.8 model families: checkpoint inspection and the tiny trained checkpoints."""

from penny_models import tiny
from penny_models.checkpoint import CheckpointError, CheckpointReport, check_checkpoint

__all__ = ["CheckpointError", "CheckpointReport", "check_checkpoint", "tiny"]
__version__ = "0.1.0"
