"""How much one verification speaks for a broken draft: log-likelihood ratios by accepted tokens."""

import math
from collections.abc import Sequence
from itertools import accumulate


def low_scores(rates: Sequence[float], cut: float) -> tuple[float, ...]:
    """Return, for 0 to K accepted tokens, the score of a verification of K draft tokens, in nats.

    It is log(P1 / P0), where P0 accepts with `rates` [K] (each below 1) and P1 with `cut` times these, and of that the
    running minimum: a score never rises with the number of accepted tokens. So under P0, and under any law that accepts
    at least k tokens at least as often as P0 for every k, the mean of exp(score) is at most 1.
    """
    ratios = [
        accepted * math.log(cut) + math.log((1.0 - cut * rate) / (1.0 - rate))
        for accepted, rate in enumerate(rates)
    ]
    return tuple(accumulate([*ratios, len(rates) * math.log(cut)], min))


def none_score(rate: float) -> float:
    """Return the score, -log P, of a verification whose first token was refused; `rate` is below 1."""
    return -math.log(1.0 - rate)


def all_score(rates: Sequence[float]) -> float:
    """Return the score, -log P, of a verification in which all tokens of `rates` were accepted; each is above 0."""
    return -sum(math.log(rate) for rate in rates)
