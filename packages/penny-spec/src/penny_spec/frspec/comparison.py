"""Two maps side by side."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from penny_spec.frspec.counting import Counts
from penny_spec.frspec.coverage import Coverage, Labels, measure


@dataclass(frozen=True)
class Comparison:
    """Overlap of two maps and, with a corpus, what each covers of it.

    Attributes:
        shared: number of ids in both.
        only_left: ids only in the left map, ascending.
        only_right: ids only in the right map, ascending.
        jaccard: `shared` over the ids in either map; 1 for equal maps.
        coverage: for each group of the corpus the left and the right map's coverage; empty without one.
    """

    shared: int
    only_left: tuple[int, ...]
    only_right: tuple[int, ...]
    jaccard: float
    coverage: tuple[tuple[Coverage, Coverage], ...]


def compare_maps(
    left: Sequence[int], right: Sequence[int], counts: Mapping[Labels, Counts] | None = None
) -> Comparison:
    """Compare two maps of one tokenizer; `counts` are the token counts of a corpus by label."""
    a, b = set(left), set(right)
    both = list(zip(measure(left, counts), measure(right, counts), strict=True)) if counts else []
    return Comparison(
        shared=len(a & b),
        only_left=tuple(sorted(a - b)),
        only_right=tuple(sorted(b - a)),
        jaccard=len(a & b) / len(a | b) if a | b else 1.0,
        coverage=tuple(both),
    )
