"""The error of a checkpoint that cannot be served, and how lists of names are shown in it."""

from collections.abc import Collection

SHOWN_NAMES = 5


class CheckpointError(ValueError):
    """A checkpoint that must not be served; the text says what was found, what was expected, what to do."""


def first_names(names: Collection[str]) -> str:
    """Return up to five names in order and how many there are besides."""
    shown = ", ".join(sorted(names)[:SHOWN_NAMES])
    rest = len(names) - SHOWN_NAMES
    return f"{shown} and {rest} more" if rest > 0 else shown


def counted(names: Collection[str], noun: str) -> str:
    """Return a count with its noun, such as ``1 tensor`` or ``7 tensors``."""
    count = len(names)
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"
