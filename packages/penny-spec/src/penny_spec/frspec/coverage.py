"""Coverage of held-out text by a map, per language and per domain."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np

from penny_spec.frspec.counting import Counts
from penny_spec.frspec.errors import CoverageError

UNLABELLED = "unlabelled"
"""Language or domain of a document that names none."""

THIN = 1000
"""Held-out tokens under which a group's coverage is said to rest on little."""

Kind = Literal["all", "language", "domain"]


class Labels(NamedTuple):
    """Language and domain of a document."""

    language: str = UNLABELLED
    domain: str = UNLABELLED


@dataclass(frozen=True)
class Coverage:
    """Held-out token occurrences of one group, and how many of them the map holds.

    Attributes:
        source: `corpus`, or `choices` for the target's own greedy choices.
        kind: `all`, `language` or `domain`.
        name: the language or domain; `all` for all documents of the source.
        tokens: held-out occurrences.
        covered: those whose id is in the map.
    """

    source: str
    kind: Kind
    name: str
    tokens: int
    covered: int

    @property
    def share(self) -> float | None:
        """`covered / tokens`; None when no token was held out."""
        return self.covered / self.tokens if self.tokens else None

    @property
    def title(self) -> str:
        """The group in words."""
        return (
            f"the whole {self.source}"
            if self.kind == "all"
            else f"{self.kind} {self.name} of the {self.source}"
        )


def measure(ids: Sequence[int], held_out: Mapping[Labels, Counts], source: str = "corpus") -> list[Coverage]:
    """Coverage by the map `ids` of all documents, of each language and of each domain, in this order.

    Args:
        ids: ids of the map.
        held_out: occurrences of each id, int64 `(vocabulary,)`, by label; a label without occurrences is reported
            as a group of 0 tokens.
        source: what the counts are of.
    """
    groups: dict[tuple[Kind, str], list[int]] = {("all", "all"): [0, 0]}
    chosen = np.asarray(ids, dtype=np.int64)
    for labels, counts in held_out.items():
        total, covered = int(counts.sum()), int(counts[chosen[chosen < len(counts)]].sum())
        keys: list[tuple[Kind, str]] = [
            ("all", "all"),
            ("language", labels.language),
            ("domain", labels.domain),
        ]
        for key in keys:
            sums = groups.setdefault(key, [0, 0])
            sums[0] += total
            sums[1] += covered
    order = ("all", "language", "domain")
    ranked = sorted(groups.items(), key=lambda item: (order.index(item[0][0]), item[0][1]))
    return [Coverage(source, kind, name, *sums) for (kind, name), sums in ranked]


def check_floor(groups: Sequence[Coverage], floor: float) -> list[str]:
    """Refuse coverage under `floor`; return warnings about groups of fewer than `THIN` tokens.

    Raises:
        CoverageError: a group lies under the floor, or has no held-out token to judge it by. All such groups are
            named with their figures. A floor of 0 refuses nothing.
    """
    failed = [group for group in groups if group.share is None or group.share < floor]
    if floor > 0 and failed:
        raise CoverageError(
            f"Held-out coverage is under the floor of {floor:.4f}: {'; '.join(map(_figure, failed))}. Enlarge the "
            "map, lower its base, give more documents of these groups, or lower the floor."
        )
    return [
        f"Coverage of {group.title} rests on {group.tokens:,} held-out tokens only."
        for group in groups
        if group.tokens < THIN
    ]


def _figure(group: Coverage) -> str:
    if group.share is None:
        return f"{group.title} has no held-out tokens to measure"
    return f"{group.title} {group.share:.4f} ({group.covered:,} of {group.tokens:,} tokens)"
