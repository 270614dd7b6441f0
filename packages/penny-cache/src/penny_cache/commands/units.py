"""Sizes and times as people write them."""

from __future__ import annotations

import re

import typer

HELP = "K, M, G and T are powers of 1,024 (500G is 500 GiB); KB, MB, GB and TB are powers of 1,000."
_SIZE = re.compile(r"(\d+(?:\.\d+)?)\s*(?:([kmgt])(i?b)?|b)?", re.IGNORECASE)
_TIME = re.compile(r"(\d+(?:\.\d+)?)\s*([smhdw])", re.IGNORECASE)
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}


def size(text: str) -> int:
    """Bytes: `500G` and `500GiB` are 500 * 1024**3, `500GB` is 500 * 1000**3, `4096` and `4096B` are bytes.

    Raises:
        typer.BadParameter: anything else.
    """
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a size; write 64M, 1.5T or 500GB. {HELP}")
    number, letter, unit = match[1], (match[2] or "").lower(), (match[3] or "").lower()
    base = 1000 if unit == "b" else 1024
    return int(float(number) * base ** (" kmgt".index(letter) if letter else 0))


def seconds(text: str) -> float:
    """Seconds: `90s`, `45m`, `12h`, `30d`, `2w`.

    Raises:
        typer.BadParameter: anything else.
    """
    match = _TIME.fullmatch(text.strip())
    if match is None:
        raise typer.BadParameter(f"{text!r} is not a time; write 45m, 12h, 30d or 2w.")
    return float(match[1]) * _SECONDS[match[2].lower()]


def shown(count: float) -> str:
    """Bytes for people: `101 B`, `4.9 KiB`, `1.0 GiB`."""
    if count < 1024:
        return f"{count:.0f} B"
    for unit in ("KiB", "MiB", "GiB"):
        count /= 1024
        if count < 1023.95:
            return f"{count:.1f} {unit}"
    return f"{count / 1024:,.1f} TiB"


def ago(age: float) -> str:
    """An age in seconds for people: `now`, `12 min ago`, `5 h ago`, `30 days ago`."""
    if age < 60:
        return "now"
    if age < 3600:
        return f"{age / 60:.0f} min ago"
    return f"{age / 3600:.0f} h ago" if age < 2 * 86400 else f"{age / 86400:.0f} days ago"
