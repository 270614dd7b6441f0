"""The tiny trained checkpoints that travel in the wheel.

``path("tiny-27b")`` is a checkpoint folder that transformers and SGLang load.
"""

import difflib
from pathlib import Path

_ROOT = Path(__file__).parent


def names() -> list[str]:
    """Return the names of the shipped checkpoints, sorted."""
    return sorted(entry.parent.name for entry in _ROOT.glob("*/config.json"))


def path(name: str) -> Path:
    """Return the folder of a shipped checkpoint.

    Raises:
        ValueError: no checkpoint of this name is shipped; the message names the nearest one.
    """
    known = names()
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
        hint = f" Did you mean {near[0]}?" if near else ""
        listed = ", ".join(known) or "none"
        raise ValueError(f"There is no tiny checkpoint named {name!r}; shipped: {listed}.{hint}")
    return _ROOT / name


def card(name: str) -> str:
    """Return the data card (Markdown) of a shipped checkpoint: training data, method and measured numbers.

    Raises:
        ValueError: as ``path``.
    """
    return (path(name) / "CARD.md").read_text(encoding="utf-8")
