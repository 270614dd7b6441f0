"""Takes secrets and the layout of a machine out of what is kept."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence
from typing import Any
from urllib.parse import urlsplit, urlunsplit

_SECRET = re.compile(r"^--?[\w-]*(key|token|secret|password)$")
_PATH = re.compile(r"(?<![\w:/.~-])(?:~|\.{0,2})?(?:/[^/\s,=:'\"]+)+/?")
HIDDEN = "..."


def command(words: Sequence[str]) -> str:
    """A command line without the values of options that name a key, and with paths cut to their last part.

    `--tokens` and `--prompt-tokens` are counts, so they stay.
    """
    kept: list[str] = []
    for i, word in enumerate(words):
        name, equals, _ = word.partition("=")
        if i and _SECRET.match(words[i - 1]):
            kept.append(HIDDEN)
        elif equals and _SECRET.match(name):
            kept.append(f"{name}={HIDDEN}")
        elif "://" in word:
            kept.append(address(word))
        else:
            kept.append(text(word))
    return shlex.join(kept)


def address(url: str) -> str:
    """The address without user, password, query and fragment."""
    before, equals, rest = url.partition("=") if re.match(r"^--?[\w-]+=", url) else ("", "", url)
    parts = urlsplit(rest)
    host = parts.netloc.rpartition("@")[2]
    return before + equals + urlunsplit((parts.scheme, host, parts.path, "", ""))


def without(value: Any, secret: str | None) -> Any:
    """`value` with the secret taken out of every string in it: servers repeat a key that they refuse."""
    if not secret:
        return value
    if isinstance(value, str):
        return value.replace(secret, HIDDEN)
    if isinstance(value, dict):
        return {key: item if key == "arrivals" else without(item, secret) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [without(item, secret) for item in value]
    return value


def text(value: str) -> str:
    """`value` with each absolute path in it, or one that leads out of the folder, cut to its last part."""
    return _PATH.sub(lambda found: found.group().rstrip("/").rpartition("/")[2], value)
