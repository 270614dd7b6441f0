"""What a rule looks at, and how it refuses."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from penny_server.errors import ExitCode, PennyError
from penny_server.profiles.schema import Device

UNITS: Mapping[str, int] = {
    "": 1, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "Ki": 2**10, "Mi": 2**20, "Gi": 2**30, "Ti": 2**40,
}  # fmt: skip
"""The suffixes of whole numbers that SGLang reads."""


@dataclass(frozen=True)
class Case:
    """The resolved SGLang arguments and options, the device and compute capability that they are for, and features."""

    settings: Mapping[str, Any]
    options: Mapping[str, Any]
    device: Device
    capability: str | None
    features: tuple[str, ...] = ()

    def get(self, name: str, default: Any = None) -> Any:
        """The SGLang argument ``name``, or ``default`` where it is not set."""
        value = self.settings.get(name)
        return default if value is None else value

    def number(self, name: str) -> int | None:
        """The SGLang argument ``name`` as a whole number; raises PennyError (usage) when it is none."""
        value = self.settings.get(name)
        return None if value is None else whole_number(name, value)


Rule = Callable[[Case], None]


def whole_number(name: str, value: Any) -> int:
    """A number, or a text such as ``512Ki`` or ``1M``; raises PennyError (usage) for any other text."""
    if isinstance(value, int | float):
        return int(value)
    match = re.fullmatch(r"(-?\d+(?:\.\d+)?)([kMGT]i?|Ki|)", str(value).strip())
    if match is None or match[2] not in UNITS:
        refuse(f"{name} takes a whole number such as 524288, 512Ki or 1M, and got {value!r}.")
    return int(float(match[1]) * UNITS[match[2]])


def refuse(message: str, hint: str = "", exit_code: ExitCode = ExitCode.USAGE) -> NoReturn:
    """Raises PennyError with ``message``."""
    raise PennyError(message, exit_code, hint)
