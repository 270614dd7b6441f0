"""Hooks that are imported at their first call, so that listing the seams imports neither torch nor SGLang."""

from __future__ import annotations

import pkgutil
from collections.abc import Callable
from functools import cache
from typing import Any


@cache
def _resolved(name: str) -> Callable[..., Any]:
    found: Callable[..., Any] = pkgutil.resolve_name(name)
    return found


def lazy(name: str) -> Callable[..., Any]:
    """A callable that stands for ``package.module:attribute`` and imports it when first called."""

    def call(*args: Any, **kwargs: Any) -> Any:
        return _resolved(name)(*args, **kwargs)

    call.__name__ = call.__qualname__ = name.rpartition(":")[2]
    return call
