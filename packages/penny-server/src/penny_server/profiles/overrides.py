"""Changes to a profile: one layer of settings from the command line, the environment or a file."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penny_server.errors import ExitCode, PennyError
from penny_server.nearest import did_you_mean
from penny_server.profiles.flags import Flag, canonical, catalogue
from penny_server.profiles.options import OPTIONS, checked_option
from penny_server.profiles.schema import ENV_NAME

OWN_OPTIONS: Mapping[str, str] = {
    "host": "--host",
    "port": "--port",
    "device": "--device",
    "model_path": "--model",
    "config": "the profile",
}
"""SGLang arguments that have an option of their own in ``penny serve``."""


@dataclass(frozen=True)
class Overrides:
    """Changed SGLang arguments, environment variables and options; None takes the profile's setting away.

    ``origin`` says where they come from, for ``penny profiles show --origin``.
    """

    sglang: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str | None] = field(default_factory=dict)
    options: Mapping[str, Any] = field(default_factory=dict)
    origin: str = "--set"


def parse_overrides(settings: Iterable[str]) -> Overrides:
    """Parses ``key=value`` settings. Raises PennyError (usage) that names the nearest valid key.

    ``key`` is an SGLang argument (``max_running_requests`` or ``--max-running-requests``), an option of ours or
    ``env.NAME``. ``value`` is read as TOML (``true``, ``8``, ``[1, 2]``) and otherwise taken as text; an empty
    value takes the setting out of the profile, so that SGLang's own default holds.
    """
    values: dict[str, Any] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        key, text = key.strip(), text.strip()
        if not equals or not key:
            raise PennyError(f"--set expects key=value and got {setting!r}.", ExitCode.USAGE)
        values[key] = text if key.startswith("env.") else typed(text)
    return layer(values, "--set", "--set ")


def layer(values: Mapping[str, Any], origin: str, label: str) -> Overrides:
    """One layer of settings from keys as people type them; ``label`` goes before the key in errors.

    Raises PennyError (usage) that names the nearest valid key.
    """
    sglang: dict[str, Any] = {}
    env: dict[str, str | None] = {}
    options: dict[str, Any] = {}
    for key, value in values.items():
        where = f"{label}{key}"
        empty = value == ""
        if key.startswith("env."):
            env[_env_name(key, where)] = None if empty else str(value)
            continue
        name = canonical(key)
        if name in OPTIONS:
            options[name] = None if empty else checked_option(name, value, where=where)
            continue
        _require_argument(name, where)
        sglang[name] = None if empty else checked(catalogue()[name], value, where=where)
    return Overrides(sglang, env, options, origin)


def _require_argument(name: str, where: str) -> None:
    if name in OWN_OPTIONS:
        raise PennyError(f"{where}: use {OWN_OPTIONS[name]} instead.", ExitCode.USAGE)
    if name not in catalogue():
        hint = did_you_mean(name, [*catalogue(), *OPTIONS, "env.NAME"])
        raise PennyError(
            f"{where}: there is no such setting. {hint}".strip(),
            ExitCode.USAGE,
            "Valid keys are SGLang's arguments with underscores, the options of `penny profiles show`, and env.NAME.",
        )
    if name.startswith("ssl_") or name == "enable_ssl_refresh":
        raise PennyError(
            f"{where}: penny serve speaks plain HTTP.",
            ExitCode.USAGE,
            "Put a TLS proxy in front of it.",
        )


def _env_name(key: str, where: str) -> str:
    name = key.removeprefix("env.")
    if not re.fullmatch(ENV_NAME, name):
        raise PennyError(f"{where}: {name!r} is not the name of an environment variable.", ExitCode.USAGE)
    return name


def typed(text: str) -> Any:
    """``text`` as the TOML value that it writes, else as it is."""
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text
    return value if isinstance(value, bool | int | float | str | list | dict) else text


def checked(flag: Flag, value: Any, *, where: str) -> Any:
    """``value`` if it fits what SGLang declares for ``flag``; raises PennyError (usage) otherwise."""
    if flag.kind in ("switch", "toggle"):
        if not isinstance(value, bool):
            raise PennyError(f"{where} takes true or false, and got {value!r}.", ExitCode.USAGE)
        return value
    if flag.kind == "list":
        return [_checked_scalar(flag, v, where) for v in (value if isinstance(value, list) else [value])]
    if isinstance(value, list):
        raise PennyError(f"{where} takes one value, and got a list.", ExitCode.USAGE)
    return _checked_scalar(flag, value, where)


def _checked_scalar(flag: Flag, value: Any, where: str) -> Any:
    if isinstance(value, dict):
        return value
    if flag.scalar == "int" and (isinstance(value, bool) or not isinstance(value, int)):
        raise PennyError(f"{where} takes a whole number, and got {value!r}.", ExitCode.USAGE)
    if flag.scalar == "float" and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise PennyError(f"{where} takes a number, and got {value!r}.", ExitCode.USAGE)
    if flag.choices and str(value) not in flag.choices:
        hint = did_you_mean(str(value), flag.choices)
        raise PennyError(f"{where} does not take {value!r}. {hint}".strip(), ExitCode.USAGE)
    return str(value).lower() if isinstance(value, bool) else value
