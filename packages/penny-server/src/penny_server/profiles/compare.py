"""What a launch consists of, as rows to show, and what differs between two."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penny_server.profiles.flags import catalogue
from penny_server.profiles.launch import Launch
from penny_server.profiles.options import OPTIONS, compact

PENNY = "penny"


@dataclass(frozen=True)
class Row:
    """One setting: its key as ``--set`` takes it, its value as text, where it comes from, what it is."""

    key: str
    value: str
    origin: str
    what: str


def rows(launch: Launch) -> list[Row]:
    """Every setting of ``launch``: the model, features, options, SGLang arguments, environment."""
    listed = [
        Row("model", str(launch.checkpoint), "the command, the settings or the profile", PENNY),
        Row("features", ", ".join(launch.features), f"profile {launch.profile}", PENNY),
    ]
    if launch.needs:
        listed.append(Row("needs", ", ".join(launch.needs), f"profile {launch.profile}", PENNY))
    listed += [
        _row(launch, "options", key, value, OPTIONS[key].summary) for key, value in launch.options.items()
    ]
    listed += [
        _row(launch, "sglang", key, value, catalogue()[key].option) for key, value in launch.settings.items()
    ]
    environment = {key: value for key, value in launch.env.items() if key != "PENNY_FEATURES"}
    listed += [_row(launch, "env", key, value, "environment") for key, value in environment.items()]
    return listed


def _row(launch: Launch, table: str, key: str, value: Any, what: str) -> Row:
    origin = launch.origins.get(f"{table}.{key}", f"every {launch.device} server")
    return Row(f"env.{key}" if table == "env" else key, as_text(value), origin, what)


def as_text(value: Any) -> str:
    """A value as ``--set`` takes it."""
    if isinstance(value, Mapping | list):
        return compact(value)  # type: ignore[arg-type]
    return str(value).lower() if isinstance(value, bool) else str(value)


def differences(first: Launch, second: Launch) -> list[tuple[str, str | None, str | None]]:
    """The settings in which two launches differ: key, value of the first, value of the second; None for not set."""
    a, b = ({row.key: row.value for row in rows(launch)} for launch in (first, second))
    return [(key, a.get(key), b.get(key)) for key in dict.fromkeys([*a, *b]) if a.get(key) != b.get(key)]
