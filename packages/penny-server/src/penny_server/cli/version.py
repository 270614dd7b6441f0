"""``penny version``: what is installed."""

from __future__ import annotations

import json
import platform
from importlib.metadata import PackageNotFoundError
from importlib.metadata import version as installed

from penny_server.cli.options import DebugOption, JsonOption

PACKAGES = (
    "penny-server",
    "penny-models",
    "penny-kernels",
    "penny-spec",
    "penny-cache",
    "penny-bench",
    "sglang",
    "torch",
    "transformers",
)


def versions() -> dict[str, str | None]:
    """The installed version of each package that matters, None for those that are absent, and Python's."""
    found: dict[str, str | None] = {}
    for name in PACKAGES:
        try:
            found[name] = installed(name)
        except PackageNotFoundError:
            found[name] = None
    return found | {"python": platform.python_version()}


def version(as_json: JsonOption = False, debug: DebugOption = False) -> None:
    """Show the versions of our packages, SGLang, torch, transformers and Python."""
    found = versions()
    if as_json:
        print(json.dumps(found, indent=2))
        return
    for name, number in found.items():
        print(f"{name:14} {number or 'not installed'}")
