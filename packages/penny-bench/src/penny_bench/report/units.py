"""Numbers as a person reads them."""

from __future__ import annotations

MISSING = "-"


def number(value: float | None, digits: int = 4) -> str:
    """`value` with about `digits` significant digits, thousands apart; `-` for None."""
    if value is None:
        return MISSING
    size = abs(value)
    if size >= 10 ** (digits - 1) or value == int(value):
        return f"{value:,.0f}"
    if size < 0.001:
        return f"{value:.{digits - 1}g}"
    whole = int(float(f"{size:.{digits}g}"))
    places = max(0, digits - len(str(whole)))
    return f"{value:,.{places}f}"


def ms(seconds: float | None) -> str:
    """Seconds as milliseconds, without the unit; `-` for None."""
    return MISSING if seconds is None else number(1000 * seconds)


def time(seconds: float | None) -> str:
    """Seconds with a unit that suits them; `-` for None."""
    if seconds is None:
        return MISSING
    if abs(seconds) < 1:
        return f"{number(1000 * seconds, 3)} ms"
    if abs(seconds) < 120:
        return f"{number(seconds, 3)} s"
    minutes, left = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {left:02} s"


def percent(share: float | None) -> str:
    """A share as percent; `-` for None."""
    return MISSING if share is None else f"{100 * share:.1f} %"


def count(value: int, noun: str) -> str:
    """`1 request`, `2 requests`."""
    return f"{value:,} {noun}{'' if value == 1 else 's'}"
