"""Did-you-mean for names that people type."""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches


def nearest(name: str, valid: Iterable[str]) -> str | None:
    """The valid name closest to ``name``, or None when nothing is close."""
    matches = get_close_matches(name, list(valid), n=1, cutoff=0.5)
    return matches[0] if matches else None


def did_you_mean(name: str, valid: Iterable[str]) -> str:
    """A sentence that names the nearest valid name, else all of them if they are few, else nothing."""
    names = sorted(valid)
    found = nearest(name, names)
    if found is not None:
        return f"Did you mean {found!r}?"
    return f"Valid: {', '.join(names)}." if 0 < len(names) <= 12 else ""
