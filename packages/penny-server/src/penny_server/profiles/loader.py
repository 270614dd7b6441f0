"""Finds profiles by name or file and turns what is wrong in them into sentences."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from importlib.resources import files
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from penny_server.errors import ExitCode, PennyError
from penny_server.nearest import did_you_mean
from penny_server.profiles.flags import canonical, catalogue
from penny_server.profiles.options import OPTIONS, checked_option
from penny_server.profiles.overrides import OWN_OPTIONS, checked
from penny_server.profiles.planned import PLANNED
from penny_server.profiles.schema import Profile, Settings

DEFAULT_PROFILE = "flash-next-frspec"
"""What ``penny serve`` takes when no profile is named."""


def _folder() -> dict[str, str]:
    folder = files("penny_server.profiles")
    found = sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml"))
    return {name: folder.joinpath(f"{name}.toml").read_text(encoding="utf-8") for name in found}


def names() -> tuple[str, ...]:
    """The names of the profiles that come with the package."""
    return tuple(_folder())


def load_all() -> tuple[Profile, ...]:
    """Every profile that comes with the package."""
    return tuple(parse(text, f"profile {name}") for name, text in _folder().items())


def load(name_or_path: str) -> Profile:
    """A profile by name, or from a ``.toml`` file. Raises PennyError (usage) that names the nearest one."""
    if name_or_path.endswith(".toml"):
        path = Path(name_or_path)
        try:
            return parse(path.read_text(encoding="utf-8"), str(path))
        except (OSError, UnicodeDecodeError) as error:
            raise PennyError(f"The profile file {path} cannot be read: {error}.", ExitCode.USAGE) from error
    return parse(_text(name_or_path), f"profile {name_or_path}")


def _text(name: str) -> str:
    texts = _folder()
    if name not in texts:
        raise PennyError(
            f"There is no profile {name!r}. {did_you_mean(name, texts)}".strip(),
            ExitCode.USAGE,
            "List them with `penny profiles`, or give the path of a .toml file.",
        )
    return texts[name]


def parse(text: str, where: str) -> Profile:
    """Validates the TOML ``text`` of a profile; ``where`` names it in errors. Raises PennyError (usage).

    A profile that says ``extends = "NAME"`` has the settings of that profile too; its own win, table by table.
    """
    raw, sources = _extended(text, where, ())
    try:
        profile = Profile.model_validate(raw)
    except ValidationError as error:
        message = " ".join(_sentence(detail, raw) for detail in error.errors())
        raise PennyError(f"{where} does not fit the schema. {message}", ExitCode.USAGE) from error
    for table, settings in _tables(profile).items():
        for key, value in settings.sglang.items():
            _check_argument(f"{where}, [{table}sglang]", key, value)
    for key, value in profile.options.items():
        if key not in OPTIONS:
            hint = did_you_mean(key, OPTIONS)
            raise PennyError(f"{where}, [options]: {key!r} is not an option. {hint}".strip(), ExitCode.USAGE)
        if value != "":
            checked_option(key, value, where=f"{where}, [options]: {key}")
    for need in profile.needs:
        if need not in PLANNED:
            hint = did_you_mean(need, PLANNED)
            raise PennyError(
                f"{where}, [needs]: there is no planned feature {need!r}. {hint}".strip(), ExitCode.USAGE
            )
    return profile.extending(sources)


def _tables(profile: Profile) -> dict[str, Settings]:
    tables: dict[str, Settings] = {"": Settings(sglang=profile.sglang)}
    tables |= {f"{device}.": profile.section(device) for device in profile.devices}
    tables |= {f"tp.{gpus}.": settings for gpus, settings in profile.tp.items()}
    for name, need in profile.needs.items():
        tables |= {f"needs.{name}.": need, f"needs.{name}.without.": need.without}
    return tables


def _extended(text: str, where: str, seen: tuple[str, ...]) -> tuple[dict[str, Any], dict[str, str]]:
    """The tables of a profile on those that it extends, and which profile each setting is from."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PennyError(f"{where} is not valid TOML: {error}.", ExitCode.USAGE) from error
    name = raw.get("name", where)
    own = dict.fromkeys(_paths(raw), f"profile {name}")
    parent = raw.pop("extends", None)
    if parent is None:
        return raw, own
    if not isinstance(parent, str) or parent in seen:
        raise PennyError(
            f"{where}: extends takes the name of another profile, and got {parent!r}.", ExitCode.USAGE
        )
    base, sources = _extended(_text(parent), f"profile {parent}", (*seen, parent))
    return _over(base, raw), sources | own


def _over(base: Mapping[str, Any], top: Mapping[str, Any]) -> dict[str, Any]:
    both = {
        key: _over(base[key], value) if isinstance(value, dict) and isinstance(base.get(key), dict) else value
        for key, value in top.items()
    }
    return {**base, **both}


def _paths(raw: Mapping[str, Any]) -> list[str]:
    """``sglang.KEY``, ``env.KEY`` and ``options.KEY`` of the file and of its device sections."""
    found = []
    for start, table in (("", raw), ("cpu.", raw.get("cpu", {})), ("cuda.", raw.get("cuda", {}))):
        for kind in ("sglang", "env", "options"):
            values = table.get(kind, {}) if isinstance(table, dict) else {}
            found += [f"{start}{kind}.{key}" for key in values] if isinstance(values, dict) else []
    return found


def _check_argument(where: str, key: str, value: Any) -> None:
    if key in OWN_OPTIONS:
        raise PennyError(
            f"{where}: {key} is set by penny itself and may not be in a profile.", ExitCode.USAGE
        )
    if key not in catalogue():
        hint = did_you_mean(canonical(key), catalogue())
        raise PennyError(f"{where}: {key!r} is not an argument of SGLang. {hint}".strip(), ExitCode.USAGE)
    if value != "":
        checked(catalogue()[key], value, where=f"{where}: {key}")


def _sentence(detail: ErrorDetails, raw: Mapping[str, Any]) -> str:
    location = [str(part) for part in detail["loc"]]
    key = ".".join(location)
    if detail["type"] == "extra_forbidden":
        return f"The key {key!r} is not known. {did_you_mean(location[-1], _keys_at(location[:-1]))}".strip()
    if detail["type"] == "missing":
        return f"The key {key!r} is missing."
    text = detail["msg"].removeprefix("Value error, ")
    return f"{key}: {text}." if key else f"{text[0].upper()}{text[1:]}."


def _keys_at(location: list[str]) -> list[str]:
    """The keys that the schema allows in the table at ``location``."""
    model: type[BaseModel] = Profile
    for part in location:
        named = {field.alias or name: field for name, field in model.model_fields.items()}
        annotation = named[part].annotation if part in named else None
        candidates = [annotation, *get_args(annotation)]
        tables = [c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)]
        if not tables:
            return []
        model = tables[0]
    known = [field.alias or name for name, field in model.model_fields.items()]
    return [*known, *(["extends"] if model is Profile else [])]
