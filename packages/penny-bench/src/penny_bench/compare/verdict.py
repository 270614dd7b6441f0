"""What a comparison says, in a word for each row and in one exit status."""

from collections.abc import Iterable
from typing import Literal

from penny_bench.stats import Ratio

Verdict = Literal["better", "equal", "no worse", "worse", "undecided"]

EXIT = {"better": 0, "equal": 0, "no worse": 0, "worse": 1, "undecided": 3}
"""Exit status of each verdict."""


def verdict(ratio: Ratio | None, p: float | None, higher: bool, margin: float, alpha: float) -> Verdict:
    """Verdict on B of one row.

    Args:
        ratio: B over A with its interval at `1 - alpha`; None where there are too few restarts.
        p: its p-value, adjusted for the number of rows.
        higher: whether more is better.
        margin: relative change to the worse that does not matter, a share.
        alpha: of the tests.

    Returns:
        `better` or `worse`: the adjusted p-value is at most alpha, and for `worse` the interval does not lie
        within the margin. `equal`: it lies within the margin on both sides. `no worse`: it lies above the
        margin. `undecided`: it reaches beyond the margin, though no difference is shown.
    """
    if ratio is None or p is None:
        return "undecided"
    shown = p <= alpha
    within = ratio.low > 1 - margin if higher else ratio.high < 1 + margin
    if shown and (ratio.ratio > 1) == higher:
        return "better"
    if shown and not within:
        return "worse"
    if 1 - margin < ratio.low and ratio.high < 1 + margin:
        return "equal"
    return "no worse" if within else "undecided"


def overall(verdicts: Iterable[Verdict]) -> Verdict:
    """Verdict on all rows: worse if one is; else undecided if one is, or none; else equal, better or no worse.

    One worse row is enough for `worse`, so its p-value is corrected for their number (Holm). `no worse` takes
    every row, which no correction could make safer: an intersection-union test (Berger, "Multiparameter
    hypothesis testing and acceptance sampling", Technometrics 24, 1982).
    """
    found: set[Verdict] = set(verdicts) or {"undecided"}
    for word in ("worse", "undecided"):
        if word in found:
            return word
    return found.pop() if len(found) == 1 else "no worse"
