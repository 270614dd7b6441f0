"""The tiny trained checkpoints that travel in the wheel, and a draft vocabulary for them.

``path("tiny-27b")`` is a checkpoint folder that transformers and SGLang load; ``token_map("tiny-next-2k")`` a file for
``--speculative-token-map``.
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
    _require(name, names(), "tiny checkpoint")
    return _ROOT / name


def token_map(name: str) -> Path:
    """Return the file of a shipped token map; its manifest lies beside it.

    ``tiny-next-2k`` keeps 2,048 of the 4,096 ids of tiny-next's tokenizer, which is tiny-27b's too.

    Raises:
        ValueError: no map of this name is shipped; the message names the nearest one.
    """
    _require(name, sorted(file.stem for file in _ROOT.glob("maps/*.pt")), "token map")
    return _ROOT / "maps" / f"{name}.pt"


def card(name: str) -> str:
    """Return the data card (Markdown) of a shipped checkpoint: training data, method and measured numbers.

    Raises:
        ValueError: as ``path``.
    """
    return (path(name) / "CARD.md").read_text(encoding="utf-8")


def _require(name: str, known: list[str], kind: str) -> None:
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1, cutoff=0.0)
        hint = f" Did you mean {near[0]}?" if near else ""
        listed = ", ".join(known) or "none"
        raise ValueError(f"There is no {kind} named {name!r}; shipped: {listed}.{hint}")
