"""Prints what stock SGLang makes of launches on a GPU that is not there: compute capability 12.0, as it sees it.

Run as ``python stock_resolves.py LAUNCHES``: a JSON file with a list of {args, settings, env}. A line for each: what
SGLang changed of the settings, and some of what it resolved by itself.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import torch
from sglang.srt.arg_groups.overrides import resolving_view
from sglang.srt.plugins import load_plugins
from sglang.srt.runtime_context import override_platform
from sglang.srt.server_args import prepare_server_args

SM120 = {
    "is_cuda": True,
    "is_sm90": False,
    "is_sm100": False,
    "is_sm120": True,
    "is_blackwell": True,
    "has_flashinfer": True,
    "device_sm": 120,
    "device_capability": (12, 0),
}


def changes(args: list[str], settings: dict[str, Any]) -> dict[str, Any]:
    """What SGLang resolved otherwise than ``settings`` say, and its own ``max_prefill_tokens``."""
    server_args = prepare_server_args(args)
    server_args.resolve_once()
    view = resolving_view(server_args)
    found = {key: getattr(view, key) for key, value in settings.items() if not isinstance(value, dict)}
    changed = {key: [settings[key], value] for key, value in found.items() if value != settings[key]}
    return {"changed": changed, "max_prefill_tokens": view.max_prefill_tokens}


def main(launches: str) -> None:
    """See the module."""
    load_plugins()
    torch.cuda.get_device_capability = lambda *device: (12, 0)
    for launch in json.loads(Path(launches).read_text()):
        os.environ.update(launch["env"])
        with override_platform(**SM120):
            print("@" + json.dumps(changes(launch["args"], launch["settings"])), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
