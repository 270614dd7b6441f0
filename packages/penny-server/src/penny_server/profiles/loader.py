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
from penny_server.profiles.overrides import OWN_OPTIONS, checked
from penny_server.profiles.schema import Profile


def _folder() -> dict[str, str]:
    folder = files("penny_server.profiles")
    found = sorted(f.name for f in folder.iterdir() if f.name.endswith(".toml"))
    return {name.removesuffix(".toml"): folder.joinpath(name).read_text(encoding="utf-8") for name in found}


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
    texts = _folder()
    if name_or_path not in texts:
        raise PennyError(
            f"There is no profile {name_or_path!r}. {did_you_mean(name_or_path, texts)}".strip(),
            ExitCode.USAGE,
            "List them with `penny profiles`, or give the path of a .toml file.",
        )
    return parse(texts[name_or_path], f"profile {name_or_path}")


def parse(text: str, where: str) -> Profile:
    """Validates the TOML ``text`` of a profile; ``where`` names it in errors. Raises PennyError (usage)."""
    try:
        raw = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise PennyError(f"{where} is not valid TOML: {error}.", ExitCode.USAGE) from error
    try:
        profile = Profile.model_validate(raw)
    except ValidationError as error:
        message = " ".join(_sentence(detail, raw) for detail in error.errors())
        raise PennyError(f"{where} does not fit the schema. {message}", ExitCode.USAGE) from error
    tables = {"sglang": profile.sglang}
    tables |= {f"{device}.sglang": profile.section(device).sglang for device in profile.devices}
    for table, values in tables.items():
        for key, value in values.items():
            _check_argument(f"{where}, [{table}]", key, value)
    return profile


def _check_argument(where: str, key: str, value: Any) -> None:
    if key in OWN_OPTIONS:
        raise PennyError(
            f"{where}: {key} is set by penny itself and may not be in a profile.", ExitCode.USAGE
        )
    if key not in catalogue():
        hint = did_you_mean(canonical(key), catalogue())
        raise PennyError(f"{where}: {key!r} is not an argument of SGLang. {hint}".strip(), ExitCode.USAGE)
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
        annotation = model.model_fields[part].annotation if part in model.model_fields else None
        candidates = [annotation, *get_args(annotation)]
        tables = [c for c in candidates if isinstance(c, type) and issubclass(c, BaseModel)]
        if not tables:
            return []
        model = tables[0]
    return list(model.model_fields)
