"""Correction for many comparisons."""

from collections.abc import Sequence


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order given.

    Rejecting those up to alpha keeps the chance of even one false alarm among all at alpha, whatever the
    dependence between them. The smallest is multiplied by their number, the next by one less, and so on; none
    becomes smaller than the one before it.

    Raises:
        ValueError: a p-value is not between 0 and 1.

    Source: Holm, "A simple sequentially rejective multiple test procedure", Scand. J. Stat. 6 (1979).
    """
    for p in p_values:
        if not 0 <= p <= 1:
            raise ValueError(f"The p-value {p} is not between 0 and 1.")
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, i in enumerate(sorted(range(len(p_values)), key=lambda i: p_values[i])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[i]))
        adjusted[i] = highest
    return adjusted
