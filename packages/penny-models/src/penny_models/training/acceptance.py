"""Counts of a measured acceptance, for drafts of any kind."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor


@dataclass(frozen=True)
class Acceptance:
    """Drafts verified and, by slot [S], in how many of them the tokens up to this slot were accepted."""

    verified: int
    accepted: Tensor

    @property
    def length(self) -> float:
        """Tokens for each verify: the accepted ones and the bonus token."""
        return 1.0 + float(self.accepted.sum()) / self.verified

    @property
    def by_slot(self) -> list[float]:
        """The share of drafts [S] in which a slot is accepted, given that the slots before it were."""
        before = [self.verified, *self.accepted.tolist()][:-1]
        return [now / max(1, then) for now, then in zip(self.accepted.tolist(), before, strict=True)]


def kinds_together(kinds: Iterable[Acceptance]) -> Acceptance:
    """Return the acceptance over the verifies of all kinds of text."""
    found = list(kinds)
    return Acceptance(sum(one.verified for one in found), torch.stack([one.accepted for one in found]).sum(0))


def row(found: Acceptance, repeated: float) -> dict[str, Any]:
    """Return a measure as ``results.json`` has it; ``repeated`` is the share of repeated 4-grams of its text."""
    return {
        "tokens_per_verify": found.length,
        "accepted_by_slot": found.by_slot,
        "verifies": found.verified,
        "repeated_4_grams": repeated,
    }
