"""What acceptance a checkpoint or a token map was calibrated to have."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import accumulate
from operator import mul
from pathlib import Path
from typing import Any

_PLACES = (("held_out", "model", "nextn_acceptance"), ("nextn_acceptance",), ("acceptance",))
_RATES = "accepted_by_slot"


@dataclass(frozen=True)
class Expectation:
    """Acceptance rates by draft position, for each group of text that was calibrated.

    Attributes:
        groups: by name (`temperature_0/code`), the share of chains accepted at each position among those accepted
            up to the position before, 0 to 1. All groups have the same number of positions.
    """

    groups: Mapping[str, tuple[float, ...]]

    def __post_init__(self) -> None:
        if not self.groups:
            raise ValueError("An expectation without groups expects nothing; give the rates of at least one.")
        if len({len(rates) for rates in self.groups.values()}) > 1:
            raise ValueError(
                f"The groups have {sorted({len(rates) for rates in self.groups.values()})} draft positions; measure "
                "all of them with the same number of draft tokens."
            )
        for name, rates in self.groups.items():
            if not rates or not all(0.0 <= rate <= 1.0 for rate in rates):
                raise ValueError(f"Group {name} has the rates {list(rates)}; each must be between 0 and 1.")
            if rates[0] == 0.0:
                raise ValueError(
                    f"Group {name} accepts nothing at its first position, so no fall can be seen in it; find out why, "
                    "or leave the group out."
                )

    @property
    def positions(self) -> int:
        """Draft positions that were calibrated."""
        return len(next(iter(self.groups.values())))

    @property
    def lowest(self) -> tuple[float, ...]:
        """Rates of the lower edge: up to each position, the smallest share of accepted chains of all groups.

        Every group, and every mixture of groups, accepts at least `k` tokens at least as often, for every `k`.
        """
        return _rates(min(column) for column in zip(*self._reached(), strict=True))

    @property
    def highest(self) -> tuple[float, ...]:
        """Rates of the upper edge, likewise with the largest share."""
        return _rates(max(column) for column in zip(*self._reached(), strict=True))

    def only(self, prefix: str) -> "Expectation":
        """Return the expectation of the groups whose name starts with `prefix`, for traffic that is known to be such.

        Raises:
            ValueError: there is none.
        """
        kept = {name: rates for name, rates in self.groups.items() if name.startswith(prefix)}
        if not kept:
            raise ValueError(f"No group starts with {prefix!r}; there are {', '.join(sorted(self.groups))}.")
        return Expectation(kept)

    @classmethod
    def read(cls, path: Path) -> "Expectation":
        """Read the calibration of a checkpoint's `results.json` or of a map's manifest.

        The file holds, as `held_out.model.nextn_acceptance`, `nextn_acceptance` or `acceptance`, objects of any depth
        whose leaves have `accepted_by_slot`, a list of rates: `{"temperature_0": {"code": {"accepted_by_slot":
        [0.97, 0.97, 0.98]}}}`. A leaf named `all` is a sum over the others and is left out unless it is the only one.

        Raises:
            ValueError: the file is no JSON, or has no such rates.
            OSError: it cannot be read.
        """
        try:
            found = json.loads(path.read_text(encoding="utf-8"))
        except json.JSONDecodeError as error:
            raise ValueError(
                f"{path.name} is no JSON ({error}); give a results.json or a map manifest."
            ) from error
        for place in _PLACES:
            groups = {"/".join(names): rates for names, rates in _leaves(_inside(found, place), ())}
            kinds = {name: rates for name, rates in groups.items() if name.rpartition("/")[2] != "all"}
            if groups:
                return cls(kinds or groups)
        raise ValueError(
            f"{path.name} has no acceptance rates; expected lists named {_RATES} under "
            f"{' or '.join('.'.join(place) for place in _PLACES)}. Measure the checkpoint or the map first."
        )

    def _reached(self) -> list[list[float]]:
        return [list(accumulate(rates, mul)) for rates in self.groups.values()]


def _rates(reached: Iterator[float]) -> tuple[float, ...]:
    before, rates = 1.0, []
    for share in reached:
        rates.append(share / before if before else 0.0)
        before = share
    return tuple(rates)


def _inside(found: Any, place: tuple[str, ...]) -> Any:
    for key in place:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _leaves(found: Any, names: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], tuple[float, ...]]]:
    if not isinstance(found, dict):
        return
    if _RATES in found:
        rates = found[_RATES]
        if not isinstance(rates, list) or not all(type(rate) in (int, float) for rate in rates):
            raise ValueError(
                f"{'/'.join(names)} has {_RATES} {rates!r}; expected a list of numbers from 0 to 1."
            )
        yield names or ("all",), tuple(float(rate) for rate in rates)
        return
    for key, value in found.items():
        yield from _leaves(value, (*names, key))
