"""Checkpoint inspection without loading weights: names, shapes, dtypes and file lengths."""

from penny_models.checkpoint.check import CheckpointReport, check_checkpoint
from penny_models.checkpoint.errors import CheckpointError

__all__ = ["CheckpointError", "CheckpointReport", "check_checkpoint"]
