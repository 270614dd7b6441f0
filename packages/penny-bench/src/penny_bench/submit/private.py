"""Looks for what must not be published: keys, paths of a machine, names and addresses of hosts."""

from __future__ import annotations

import re
import socket
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from penny_bench.evidence.redact import HIDDEN

HOST = "server.invalid"
"""Stands for a host name that was taken out (RFC 2606: a name that never is one)."""
ROOTS = (
    *("home", "root", "Users", "mnt", "data", "work", "workspace", "workspaces", "tmp", "opt", "var", "srv"),
    *("media", "etc", "usr", "private", "scratch", "models", "nfs", "storage", "proc", "run", "Volumes"),
    *("content", "kaggle", "vol"),
)
"""First folders of absolute paths. Paths of URLs, such as /v1/models, begin otherwise."""
SPOKEN = frozenset({"text", "detail"})
"""Fields that hold what a model said: only keys are looked for there."""
NUMBERS = frozenset({"versions", "version", "driver", "penny_bench"})
"""Fields in which four numbers with dots are a version and no address."""

_KEYS = re.compile(
    r"\b(?:sk-[\w-]{16,}|hf_\w{20,}|gh[pousr]_\w{20,}|AKIA[0-9A-Z]{16}|eyJ[\w-]{10,}\.[\w-]{10,}\.[\w-]+)"
    r"|(?<=Bearer )[\w.~+/-]{8,}"
)
_OPTION = re.compile(r"(--?[\w-]*(?:key|secret|password|token))(?:=|\s+)(?!\.\.\.)('[^']*'|\S+)")
_NAMED = re.compile(r"(?:^|_)(?:api_?key|secret|password|auth(?:orization)?|access_token)$", re.IGNORECASE)
_PATH = re.compile(rf"(?<![\w:/.])(?:~|/(?:{'|'.join(ROOTS)}))(?:/[^\s'\",;:]+)+/?|\b[A-Za-z]:\\[^\s'\",;]+")
_URL = re.compile(r"\b[a-z][a-z0-9+.-]*://[^\s'\"<>)]+", re.IGNORECASE)
_IPV4 = re.compile(r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w.])")


@dataclass(frozen=True)
class Finding:
    """Something private.

    Attributes:
        where: its place in the document, such as `server.url`.
        what: `a key`, `a path` or `a host`.
    """

    where: str
    what: str


def hosts_of(value: Any) -> frozenset[str]:
    """Names by which this machine and the server of a document may be called in its messages."""
    url = (value.get("server") or {}).get("url") if isinstance(value, dict) else None
    try:
        server = urlsplit(str(url or "")).hostname or ""
    except ValueError:
        server = ""
    names = {server, socket.gethostname().lower()}
    return frozenset(name for name in names if len(name) > 3 and not _local(name))


def findings(value: Any, where: str = "", hosts: frozenset[str] = frozenset()) -> Iterator[Finding]:
    """All that is private in a document, in its order.

    Args:
        value: the document, or a part of it.
        where: name of the part.
        hosts: further names to look for, from `hosts_of`.
    """
    yield from _walk(value, where, "", False, hosts)


def cleaned(value: Any, hosts: frozenset[str] = frozenset()) -> Any:
    """The document with keys hidden, paths cut to their last part and hosts replaced."""
    return _clean(value, "", False, hosts)


def _walk(value: Any, where: str, field: str, spoken: bool, hosts: frozenset[str]) -> Iterator[Finding]:
    if isinstance(value, dict):
        for name, entry in value.items():
            for what, _ in _places(str(name), "", spoken, hosts):
                yield Finding(f"a name in {where or 'the document'}", what)
            inner = f"{where}.{name}" if where else str(name)
            yield from _walk(entry, inner, str(name), spoken or name in SPOKEN, hosts)
    elif isinstance(value, list):
        for i, entry in enumerate(value):
            yield from _walk(entry, f"{where}[{i}]", field, spoken, hosts)
    elif isinstance(value, str):
        yield from (Finding(where, what) for what, _ in _places(value, field, spoken, hosts))


def _clean(value: Any, field: str, spoken: bool, hosts: frozenset[str]) -> Any:
    if isinstance(value, dict):
        return {
            _clean(str(name), "", spoken, hosts): _clean(entry, str(name), spoken or name in SPOKEN, hosts)
            for name, entry in value.items()
        }
    if isinstance(value, list):
        return [_clean(entry, field, spoken, hosts) for entry in value]
    if isinstance(value, str):
        for _, change in _places(value, field, spoken, hosts):
            value = change(value)
    return value


def _places(
    text: str, field: str, spoken: bool, hosts: frozenset[str]
) -> list[tuple[str, Callable[[str], str]]]:
    """What is private in a text, each with the function that takes it out."""
    found: list[tuple[str, Callable[[str], str]]] = []
    if _KEYS.search(text):
        found.append(("a key", lambda value: _KEYS.sub(HIDDEN, value)))
    if field and _NAMED.search(field) and text not in ("", HIDDEN):
        found.append(("a key", lambda value: HIDDEN))
    if spoken:
        return found
    if field == "command" and _OPTION.search(text):
        found.append(("a key", lambda value: _OPTION.sub(_hide, value)))
    if any(_private_url(match.group()) for match in _URL.finditer(text)):
        found.append(("a host", lambda value: _URL.sub(_hide_host, value)))
    if field not in NUMBERS and any(_private_address(match.group()) for match in _IPV4.finditer(_bare(text))):
        found.append(("a host", lambda value: _IPV4.sub(_hide_address, value)))
    for host in hosts:
        word = re.compile(rf"(?<![\w.-]){re.escape(host)}(?![\w-])", re.IGNORECASE)
        if word.search(_bare(text)):
            found.append(("a host", partial(word.sub, HOST)))
    if _PATH.search(text):
        found.append(("a path", lambda value: _PATH.sub(_last, value)))
    return found


def _hide(match: re.Match[str]) -> str:
    return f"{match[1]} {HIDDEN}"


def _bare(text: str) -> str:
    """The text without its URLs, which are judged on their own."""
    return _URL.sub(" ", text)


def _local(host: str) -> bool:
    return host in ("localhost", "::1", "0.0.0.0", HOST, "") or host.startswith("127.")


def _private_url(url: str) -> bool:
    try:
        parts = urlsplit(url)
        return "@" in parts.netloc or not _local((parts.hostname or "").lower())
    except ValueError:
        return True


def _private_address(address: str) -> bool:
    return all(int(part) < 256 for part in address.split(".")) and not _local(address)


def _hide_host(match: re.Match[str]) -> str:
    url = match.group()
    if not _private_url(url):
        return url
    try:
        parts = urlsplit(url)
        port = f":{parts.port}" if parts.port else ""
    except ValueError:
        return f"http://{HOST}"
    host = (parts.hostname or "").lower()
    return urlunsplit((parts.scheme, (host if _local(host) else HOST) + port, parts.path, "", ""))


def _hide_address(match: re.Match[str]) -> str:
    return HOST if _private_address(match.group()) else match.group()


def _last(match: re.Match[str]) -> str:
    return re.split(r"[/\\]", match.group().rstrip("/\\"))[-1]
