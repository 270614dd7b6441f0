"""What a campaign found."""

from __future__ import annotations

import dataclasses
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from penny_cache.namespace import NamespaceError
from penny_cache.store import StoreError
from penny_cache.torture.ledger import BAD

Progress = Callable[[int, int], None]
"""Told how many rounds are done, of how many."""


def silent(done: int, of: int) -> None:
    """No progress."""


@dataclass
class Result:
    """Of one campaign.

    Attributes:
        campaign: its name.
        seed: with which it can be run again.
        rounds: kills, cuts, changes of files or faults.
        seconds: that it took.
        outcomes: how often each was found; see `ledger.BAD` for those that must not be.
        notes: counts of what was done, which show that the rounds were what they should be.
        table: a row for each case, of a campaign whose rounds are cases.
        faults: a sentence for each bad outcome, with its round; the first hundred.
    """

    campaign: str
    seed: int
    rounds: int = 0
    seconds: float = 0.0
    outcomes: Counter[str] = field(default_factory=Counter)
    notes: Counter[str] = field(default_factory=Counter)
    table: list[dict[str, Any]] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    @property
    def good(self) -> bool:
        """Whether the contract was kept throughout."""
        return not self.bad

    @property
    def bad(self) -> int:
        """Outcomes that the contract does not allow."""
        return sum(self.outcomes[name] for name in BAD)

    def found(self, where: str, outcomes: Counter[str], faults: list[str]) -> None:
        """Add what a judgement found."""
        self.outcomes += outcomes
        self.faults += [f"{where}: {fault}" for fault in faults][: 100 - len(self.faults)]

    def fault(self, where: str, outcome: str, sentence: str) -> None:
        """Add one bad outcome."""
        self.found(where, Counter({outcome: 1}), [f"{outcome}: {sentence}"])

    @contextmanager
    def judging(self, where: str) -> Iterator[None]:
        """Note what is raised within as a bad outcome."""
        try:
            yield
        except (StoreError, NamespaceError) as error:
            self.fault(where, "error", str(error))
        except Exception as error:  # noqa: BLE001 - an exception of any other type is what is looked for
            frame = traceback.extract_tb(error.__traceback__)[-1]
            self.fault(where, "escaped", f"{error!r} at {Path(frame.filename).name}:{frame.lineno}")

    def as_dict(self) -> dict[str, Any]:
        """For JSON."""
        found = {one.name: getattr(self, one.name) for one in dataclasses.fields(self)}
        return found | {"outcomes": dict(self.outcomes), "notes": dict(self.notes), "good": self.good}
