"""Dotted paths of fields: `models.target.sha256`, `layers[3]`, `models["org/name"].sha256`."""

import json
import re

_PLAIN = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def join(path: tuple[str | int, ...]) -> str:
    """One spelling a path: plain keys are dotted, positions and all other keys are in brackets."""
    out = ""
    for step in path:
        if isinstance(step, str) and _PLAIN.fullmatch(step):
            out += f".{step}" if out else step
        else:
            out += f"[{json.dumps(step)}]"
    return out
