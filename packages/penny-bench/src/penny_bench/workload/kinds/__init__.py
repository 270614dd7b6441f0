"""How each kind of workload is run. One file a kind; a file is loaded when a workload asks for it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

if TYPE_CHECKING:
    from penny_bench.workload.bench import Bench

KINDS = (
    "agent",
    "code-edit",
    "decode",
    "interference",
    "media",
    "needles",
    "prefill",
    "reasoning",
    "replay",
    "restore",
    "structured",
    "tools",
)
"""All kinds; each is the module of that name, with `_` for `-`, which holds a `KIND`."""


@dataclass(frozen=True)
class Kind:
    """A way to measure.

    Attributes:
        name: as workload files call it.
        settings: pydantic model of its settings, which allows no unknown key and has a default for each.
        run: sends everything; adds phases, metrics and checks to the bench. A failed request is no error.
    """

    name: str
    settings: type[BaseModel]
    run: Callable[[Bench, Any], Awaitable[None]]


def load_kind(name: str) -> Kind:
    """The kind of that name, which must be in `KINDS`."""
    kind = import_module(f"{__name__}.{name.replace('-', '_')}").KIND
    assert isinstance(kind, Kind)
    return kind
