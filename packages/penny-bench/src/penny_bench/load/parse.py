"""Loads as they are written on a command line: `poisson:rate=4`."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from penny_bench.errors import BenchError
from penny_bench.load.arrivals import Constant, Gamma, Poisson, Ramp
from penny_bench.load.base import Closed
from penny_bench.load.trace import Trace

Load = Closed | Constant | Poisson | Gamma | Ramp | Trace

FORMS = (
    "closed:concurrency=8,ramp_up=0, constant:rate=4, poisson:rate=4, gamma:rate=4,cv=2 (or burstiness=0.25), "
    "ramp:from=1,to=10,over=60, trace:file=requests.jsonl,speed=1"
)
"""All that `parse_load` takes, for help texts and messages."""


def parse_load(text: str) -> Load:
    """The load that `text` names.

    Raises:
        BenchError: it names none; the message lists the forms.
    """
    kind, _, rest = text.partition(":")
    if kind not in _MAKERS:
        raise BenchError(f"There is no load {kind!r}; the forms are {FORMS}.")
    values = pairs(rest, f"The load {text!r}")
    load = _MAKERS[kind](values, text)
    if values:
        raise BenchError(f"The load {text!r} has no setting {next(iter(values))!r}; the forms are {FORMS}.")
    return load


def pairs(text: str, what: str) -> dict[str, str]:
    """`a=1,b=2` as a dict.

    Raises:
        BenchError: a part has no `=`, or a name comes twice. The message begins with `what`.
    """
    found: dict[str, str] = {}
    for part in filter(None, text.split(",")):
        name, equals, value = part.partition("=")
        if not equals or not value:
            raise BenchError(f"{what} has the part {part!r}; write name=value.")
        if name in found:
            raise BenchError(f"{what} has {name!r} twice; give it once.")
        found[name] = value
    return found


def number(values: dict[str, str], name: str, what: str, default: float | None = None) -> float:
    """Take the number `name` out of `values`.

    Raises:
        BenchError: it is missing and has no default, or is no number.
    """
    text = values.pop(name, None)
    if text is None:
        if default is None:
            raise BenchError(f"{what} needs {name}; the forms are {FORMS}.")
        return default
    try:
        return float(text)
    except ValueError:
        raise BenchError(f"{what} has {name} = {text!r}; give a number.") from None


def _closed(values: dict[str, str], text: str) -> Load:
    what = f"The load {text!r}"
    concurrency = number(values, "concurrency", what)
    if concurrency != int(concurrency):
        raise BenchError(f"concurrency is {concurrency:g}; give a whole number.")
    return Closed(int(concurrency), number(values, "ramp_up", what, 0.0))


def _constant(values: dict[str, str], text: str) -> Load:
    return Constant(number(values, "rate", f"The load {text!r}"))


def _poisson(values: dict[str, str], text: str) -> Load:
    return Poisson(number(values, "rate", f"The load {text!r}"))


def _gamma(values: dict[str, str], text: str) -> Load:
    what = f"The load {text!r}"
    if {"cv", "burstiness"} <= values.keys():
        raise BenchError(f"{what} has both cv and burstiness; give one (burstiness = 1 / cv**2).")
    rate = number(values, "rate", what)
    if "burstiness" in values:
        shape = number(values, "burstiness", what)
        if not shape > 0:
            raise BenchError(f"burstiness is {shape:g}; give a number above 0.")
        return Gamma(rate, shape**-0.5)
    return Gamma(rate, number(values, "cv", what, 1.0))


def _ramp(values: dict[str, str], text: str) -> Load:
    what = f"The load {text!r}"
    return Ramp(number(values, "from", what), number(values, "to", what), number(values, "over", what))


def _trace(values: dict[str, str], text: str) -> Load:
    speed = number(values, "speed", f"The load {text!r}", 1.0)
    if "file" not in values:
        raise BenchError(f"The load {text!r} needs file; the forms are {FORMS}.")
    return Trace.read(Path(values.pop("file")), speed)


_MAKERS: dict[str, Callable[[dict[str, str], str], Load]] = {
    "closed": _closed,
    "constant": _constant,
    "poisson": _poisson,
    "gamma": _gamma,
    "ramp": _ramp,
    "trace": _trace,
}
