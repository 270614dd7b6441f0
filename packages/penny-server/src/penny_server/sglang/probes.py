"""Probes that several seams share. They run in the server's own processes, after the seams were applied."""

from __future__ import annotations

import pkgutil
import sys
import types
from typing import Any


def hooked(target: str) -> bool:
    """Whether ``target`` is a hook's wrapper and no loaded module still holds the function that it wraps."""
    wrapper: Any = pkgutil.resolve_name(target)
    original = getattr(wrapper, "__wrapped__", None)
    if original is None:
        return False
    modules = [m for m in list(sys.modules.values()) if isinstance(m, types.ModuleType)]
    return not any(value is original for module in modules for value in list(vars(module).values()))
