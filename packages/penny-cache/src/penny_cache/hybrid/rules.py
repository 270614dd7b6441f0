"""Legal ends of a prefix."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Rules:
    """The parts of a model's prefix state, by name.

    Attributes:
        pages: needed of every page up to the end: attention keys and values of target and draft, sparse-index keys.
        snapshots: needed of the last page only: recurrent state and everything that goes with it.
        siblings: those of `snapshots` that the first layers read, so they must be there before any layer runs.
    """

    pages: frozenset[str]
    snapshots: frozenset[str] = frozenset()
    siblings: frozenset[str] = frozenset()

    def __post_init__(self) -> None:
        if not self.pages:
            raise ValueError("A model without parts of every page has no prefix to restore.")
        if both := self.pages & self.snapshots:
            raise ValueError(f"{', '.join(sorted(both))} cannot be of every page and a snapshot.")
        if extra := self.siblings - self.snapshots:
            raise ValueError(f"{', '.join(sorted(extra))} are siblings and no snapshots.")

    def complete(self, parts: Collection[str]) -> bool:
        """Whether a page with these parts is one that a prefix may go through."""
        return self.pages <= set(parts)

    def may_end(self, parts: Collection[str]) -> bool:
        """Whether a prefix may end with a page that has these parts, if it came that far."""
        return self.pages | self.snapshots <= set(parts)


def restorable(present: Sequence[Collection[str]], rules: Rules) -> int:
    """The longest prefix that can be restored whole: the greatest legal end, in pages; 0 for none.

    Args:
        present: names of the parts that are there, for each page from the first one on.
        rules: of the model.

    The minimum over the kinds of state would not do: it may be a page of which no kind has a snapshot.
    """
    end = 0
    for page, parts in enumerate(present, 1):
        if not rules.complete(parts):
            break
        if rules.may_end(parts):
            end = page
    return end
