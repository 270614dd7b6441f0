"""Progress of long work as events, few enough that they cost nothing."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from penny_server.events import emit

if TYPE_CHECKING:
    import torch

EVERY_S = 0.2
INDEX = "model.safetensors.index.json"
LENGTH_BYTES = 8
"""A safetensors file begins with the length of its header."""


class Throttle:
    """Says yes at most once in ``every`` seconds."""

    def __init__(self, every: float = EVERY_S) -> None:
        self._every = every
        self._last = float("-inf")

    def due(self) -> bool:
        """Whether it is time again."""
        now = time.monotonic()
        if now - self._last < self._every:
            return False
        self._last = now
        return True


def tensor_bytes(folder: Path) -> int:
    """Bytes of the tensors in the files that the checkpoint's index names, or in all of a folder without one.

    The files' sizes count, not the total that the index claims. 0 for what is no local checkpoint of safetensors.
    """
    if not folder.is_dir():
        return 0
    index = folder / INDEX
    if index.is_file():
        names = sorted(set(json.loads(index.read_text(encoding="utf-8"))["weight_map"].values()))
        files = [folder / name for name in names]
    else:
        files = sorted(folder.glob("*.safetensors"))
    return sum(_data_bytes(file) for file in files if file.is_file())


def _data_bytes(file: Path) -> int:
    with open(file, "rb") as stream:
        header = int.from_bytes(stream.read(LENGTH_BYTES), "little")
    return file.stat().st_size - LENGTH_BYTES - header


def counted(weights: Iterable[tuple[str, torch.Tensor]], total: int) -> Iterator[tuple[str, torch.Tensor]]:
    """The same weights, with ``weights`` events that say how many bytes of ``total`` went by."""
    throttle, done = Throttle(), 0
    for name, tensor in weights:
        yield name, tensor
        done += tensor.nbytes
        if throttle.due():
            tell_bytes(done, total)
    tell_bytes(done, total)


def tell_bytes(done: int, total: int) -> None:
    """One ``weights`` event; without a fraction where the total is not known."""
    share = {"fraction": min(1.0, done / total), "of": total} if total else {}
    emit("weights", "progress", bytes=done, **share)
