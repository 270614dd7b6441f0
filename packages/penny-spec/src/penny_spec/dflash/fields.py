"""Values out of a config.json, each with its type and range checked."""

import math
from collections.abc import Mapping
from typing import Any


class Fields:
    """Looks keys up in JSON objects, the first that has one wins; null counts as absent.

    Args:
        name: how errors call the place, such as "dflash_config".
        objects: the JSON objects, in the order of the look-up.
    """

    def __init__(self, name: str, *objects: Mapping[str, Any]) -> None:
        self.name = name
        self.objects = objects

    def value(self, key: str) -> Any:
        """The raw value, None if no object has one."""
        return next((found for one in self.objects if (found := one.get(key)) is not None), None)

    def whole(self, key: str, least: int) -> int | None:
        """An integer of at least `least`, or None if absent."""
        found = self.value(key)
        if found is None:
            return None
        if not isinstance(found, int) or isinstance(found, bool) or found < least:
            raise self.refusal(key, found, f"an integer of at least {least}")
        return found

    def required(self, key: str, least: int = 1) -> int:
        """An integer of at least `least` that must be there."""
        found = self.whole(key, least)
        if found is None:
            raise ValueError(
                f"{self.name} has no {key}; it needs an integer of at least {least}. Is it the draft's file?"
            )
        return found

    def number(self, key: str, default: float) -> float:
        """A finite number; `default` if absent."""
        found = self.value(key)
        if found is None:
            return default
        if not isinstance(found, int | float) or isinstance(found, bool) or not math.isfinite(found):
            raise self.refusal(key, found, "a finite number")
        return float(found)

    def flag(self, key: str) -> bool | None:
        """true or false, or None if absent."""
        found = self.value(key)
        if found is not None and not isinstance(found, bool):
            raise self.refusal(key, found, "true or false")
        return found

    def pair(self, first: str, second: str) -> tuple[int, int]:
        """Two integers that only make sense together; (0, 0) if both are absent or 0."""
        one, two = self.whole(first, 0) or 0, self.whole(second, 0) or 0
        if bool(one) != bool(two):
            raise ValueError(
                f"{self.name} has {first} {one} and {second} {two}; both must be positive, or both absent."
            )
        return one, two

    def mapping(self, key: str) -> Mapping[str, Any] | None:
        """A JSON object, or None if absent."""
        found = self.value(key)
        if found is not None and not isinstance(found, Mapping):
            raise self.refusal(key, found, "a JSON object")
        return found

    def refusal(self, key: str, found: object, wanted: str) -> ValueError:
        """The error for a value that is not what it should be."""
        return ValueError(f"{self.name} has {key} {found!r}; it must be {wanted}.")
