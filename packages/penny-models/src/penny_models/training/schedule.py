"""The learning-rate schedule, by the share of the run that is done."""

WARM_UP = 0.02
DECAY_FROM = 0.4


def rate_factor(progress: float) -> float:
    """Return the factor for ``progress`` in [0, 1]: linear warm-up, constant, then linear to zero."""
    if progress < WARM_UP:
        return max(progress, 1e-4) / WARM_UP
    if progress < DECAY_FROM:
        return 1.0
    return max(0.0, (1.0 - progress) / (1.0 - DECAY_FROM))
