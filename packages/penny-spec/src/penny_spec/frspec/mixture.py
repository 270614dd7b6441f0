"""Weights of ids from a corpus and from the target's own greedy choices."""

import numpy as np
from numpy.typing import NDArray

from penny_spec.frspec.counting import Counts
from penny_spec.frspec.errors import InputError


def mix(corpus: Counts, choices: Counts, weight: float) -> NDArray[np.float64]:
    """`(1 - weight)` times the corpus frequencies plus `weight` times those of the choices.

    Args:
        corpus: int64 `(vocabulary,)`, occurrences in the corpus.
        choices: int64 `(vocabulary,)`, how often the target chose each id.
        weight: share of the choices, 0 to 1.

    Raises:
        InputError: a weight outside 0 to 1, or a source with weight but without tokens.
    """
    if not 0 <= weight <= 1:
        raise InputError(f"The weight of the target's choices is {weight}; choose 0 to 1.")
    mixed = np.zeros(len(corpus), dtype=np.float64)
    for name, counts, part in (("corpus", corpus, 1 - weight), ("choice record", choices, weight)):
        total = int(counts.sum())
        if part and not total:
            raise InputError(
                f"The weight of the {name} is {part:g}, but it gives no tokens to count; add documents."
            )
        if part:
            mixed += part * (counts / total)
    return mixed
