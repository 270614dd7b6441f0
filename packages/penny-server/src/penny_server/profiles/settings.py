"""Settings of the person who starts a server: ``penny.toml`` files, ``PENNY_*`` variables, flags."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, get_args

from penny_server.errors import ExitCode, PennyError
from penny_server.nearest import did_you_mean
from penny_server.profiles.flags import catalogue
from penny_server.profiles.loader import names
from penny_server.profiles.options import OPTIONS
from penny_server.profiles.overrides import Overrides, layer, typed
from penny_server.profiles.schema import Device

FILE = "penny.toml"
PREFIX = "PENNY_"
OWN = ("PENNY_FEATURES", "PENNY_RUN_DIR", "PENNY_URL", "PENNY_DRAFT_PATH")
"""Variables of ours that are no settings. So is everything that starts with ``PENNY_BENCH_``."""
PLACES = ("model", "draft", "device", "host", "port")


@dataclass(frozen=True)
class Person:
    """What the files and variables say: layers of settings, weakest first, and where to find and serve things."""

    layers: tuple[Overrides, ...] = ()
    model: Path | None = None
    draft: Path | None = None
    device: Device | None = None
    host: str | None = None
    port: int | None = None

    def with_(self, values: Mapping[str, Any], origin: str, label: str) -> Person:
        """This with a stronger layer of ``values``, keyed as people type them. Raises PennyError (usage)."""
        places = {key: _place(key, values[key], f"{label}{key}") for key in PLACES if key in values}
        rest = {key: value for key, value in values.items() if key not in PLACES}
        added = replace(self, **places)
        return replace(added, layers=(*self.layers, layer(rest, origin, label))) if rest else added


def user_file() -> Path:
    """``$XDG_CONFIG_HOME/pennyroyal/penny.toml``, by default under ``~/.config``."""
    config = os.environ.get("XDG_CONFIG_HOME")
    base = Path(config) if config and os.path.isabs(config) else Path.home() / ".config"
    return base / "pennyroyal" / FILE


def gather(profile: str, environ: Mapping[str, str], files: tuple[Path, ...] | None = None) -> Person:
    """What holds for ``profile`` here: the user's file, the folder's, then the environment; the later wins.

    ``files`` are the files to read, by default those two. Raises PennyError (usage).
    """
    person = Person()
    for file in (user_file(), Path(FILE)) if files is None else files:
        for values, label in _tables(file, profile):
            person = person.with_(values, str(file), label)
    return _from_environment(person, environ)


def _tables(file: Path, profile: str) -> list[tuple[dict[str, Any], str]]:
    if not file.is_file():
        return []
    try:
        raw = tomllib.loads(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise PennyError(f"{file} cannot be read: {error}.", ExitCode.USAGE) from error
    unknown = next((key for key in raw if key not in ("all", "profile")), None)
    if unknown is not None:
        raise PennyError(
            f"{file}: {unknown!r} is not a table of a settings file. {did_you_mean(unknown, ('all', 'profile'))}",
            ExitCode.USAGE,
            "Settings for every profile go under [all], those for one under [profile.NAME].",
        )
    profiles = raw.get("profile", {})
    known = {*names(), profile}
    stray = (
        next((name for name in profiles if name not in known), None) if isinstance(profiles, dict) else None
    )
    if stray is not None:
        raise PennyError(
            f"{file}: there is no profile {stray!r}. {did_you_mean(stray, known)}".strip(), ExitCode.USAGE
        )
    found = []
    for table, label in (
        (raw.get("all", {}), "[all] "),
        (profiles.get(profile, {}), f"[profile.{profile}] "),
    ):
        if not isinstance(table, dict):
            raise PennyError(f"{file}: {label.strip()} is not a table.", ExitCode.USAGE)
        found.append((_flat(table), f"{file} {label}"))
    return found


def _flat(table: Mapping[str, Any]) -> dict[str, Any]:
    env = table.get("env", {})
    variables = {f"env.{name}": str(value) for name, value in env.items()} if isinstance(env, dict) else {}
    return {key: value for key, value in table.items() if key != "env"} | variables


def _from_environment(person: Person, environ: Mapping[str, str]) -> Person:
    for name in sorted(environ):
        if not name.startswith(PREFIX) or name in OWN or name.startswith("PENNY_BENCH_"):
            continue
        key = name.removeprefix(PREFIX).lower()
        known = [*PLACES, *OPTIONS, *catalogue()]
        if key not in known:
            near = did_you_mean(name, [PREFIX + k.upper() for k in known])
            raise PennyError(
                f"The environment variable {name} is no setting. {near}".strip(),
                ExitCode.USAGE,
                f"Unset it, or give one that {PREFIX} and a key of --set make.",
            )
        text = environ[name]
        person = person.with_({key: text if key in PLACES else typed(text)}, name, f"{name}: ")
    return person


def _place(key: str, value: Any, where: str) -> Any:
    if key in ("model", "draft") and isinstance(value, str) and value:
        return Path(value)
    if key == "port":
        port = typed(value) if isinstance(value, str) else value
        if isinstance(port, int) and not isinstance(port, bool) and 1 <= port <= 65535:
            return port
        raise PennyError(f"{where} takes a port from 1 to 65535, and got {value!r}.", ExitCode.USAGE)
    if key == "device" and value in (*get_args(Device), "auto"):
        return None if value == "auto" else value
    if key == "host" and isinstance(value, str) and value:
        return value
    raise PennyError(f"{where} does not take {value!r}.", ExitCode.USAGE)
