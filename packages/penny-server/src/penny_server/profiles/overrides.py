"""``--set key=value``: changes to a profile from the command line."""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from penny_server.errors import ExitCode, PennyError
from penny_server.nearest import did_you_mean
from penny_server.profiles.flags import Flag, canonical, catalogue
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
    """Changed SGLang arguments and environment variables; None takes the profile's setting away."""

    sglang: Mapping[str, Any] = field(default_factory=dict)
    env: Mapping[str, str | None] = field(default_factory=dict)


def parse_overrides(settings: Iterable[str]) -> Overrides:
    """Parses ``key=value`` settings. Raises PennyError (usage) that names the nearest valid key.

    ``key`` is an SGLang argument (``max_running_requests`` or ``--max-running-requests``) or ``env.NAME``.
    ``value`` is read as TOML (``true``, ``8``, ``[1, 2]``) and otherwise taken as text; an empty value takes
    the setting out of the profile, so that SGLang's own default holds.
    """
    sglang: dict[str, Any] = {}
    env: dict[str, str | None] = {}
    for setting in settings:
        key, equals, text = setting.partition("=")
        key, text = key.strip(), text.strip()
        if not equals or not key:
            raise PennyError(f"--set expects key=value and got {setting!r}.", ExitCode.USAGE)
        if key.startswith("env."):
            env[_env_name(key)] = text or None
            continue
        name = canonical(key)
        if name in OWN_OPTIONS:
            raise PennyError(f"--set {key}: use {OWN_OPTIONS[name]} instead.", ExitCode.USAGE)
        if name not in catalogue():
            hint = did_you_mean(name, [*catalogue(), "env.NAME"])
            raise PennyError(
                f"--set {key}: SGLang has no such argument. {hint}".strip(),
                ExitCode.USAGE,
                "Valid keys are SGLang's arguments with underscores, and env.NAME.",
            )
        if name.startswith("ssl_") or name == "enable_ssl_refresh":
            raise PennyError(
                f"--set {key}: penny serve speaks plain HTTP.",
                ExitCode.USAGE,
                "Put a TLS proxy in front of it.",
            )
        sglang[name] = checked(catalogue()[name], _typed(text), where=f"--set {key}") if text else None
    return Overrides(sglang, env)


def _env_name(key: str) -> str:
    name = key.removeprefix("env.")
    if not re.fullmatch(ENV_NAME, name):
        raise PennyError(f"--set {key}: {name!r} is not the name of an environment variable.", ExitCode.USAGE)
    return name


def _typed(text: str) -> Any:
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
        return json.dumps(value, separators=(",", ":"))
    if flag.scalar == "int" and (isinstance(value, bool) or not isinstance(value, int)):
        raise PennyError(f"{where} takes a whole number, and got {value!r}.", ExitCode.USAGE)
    if flag.scalar == "float" and (isinstance(value, bool) or not isinstance(value, int | float)):
        raise PennyError(f"{where} takes a number, and got {value!r}.", ExitCode.USAGE)
    if flag.choices and str(value) not in flag.choices:
        hint = did_you_mean(str(value), flag.choices)
        raise PennyError(f"{where} does not take {value!r}. {hint}".strip(), ExitCode.USAGE)
    return str(value).lower() if isinstance(value, bool) else value
