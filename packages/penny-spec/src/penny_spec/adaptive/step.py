"""What a width policy sees of one verification, and what a verification costs."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Step:
    """One verify forward of a batch.

    Attributes:
        width: draft tokens that each request had verified in this forward, at least 1.
        accepted: by request, how many of them the target accepted, 0 to `width`.
        top1: by request, the draft's probability of its first token (position 0) *in this forward*. A server that
            copies it without waiting must pair it with the forward that verified that draft, not with the newest.
    """

    width: int
    accepted: tuple[int, ...]
    top1: tuple[float, ...]

    def __post_init__(self) -> None:
        if not self.accepted or len(self.accepted) != len(self.top1):
            raise ValueError(
                f"A step has {len(self.accepted)} accepted counts and {len(self.top1)} probabilities; it needs one "
                "of each for every request of its batch."
            )
        if self.width < 1 or not all(0 <= count <= self.width for count in self.accepted):
            raise ValueError(
                f"A step of width {self.width} has accepted counts {list(self.accepted)}; each must be between 0 "
                "and the width, and the width at least 1."
            )
        if not all(0.0 <= top1 <= 1.0 for top1 in self.top1):
            raise ValueError(
                f"A step has draft probabilities {list(self.top1)}; each must be between 0 and 1."
            )

    @property
    def batch_size(self) -> int:
        """Requests in this forward."""
        return len(self.accepted)

    @property
    def tokens(self) -> int:
        """Tokens that the batch gained: the accepted ones and one of the target's own for each request."""
        return sum(self.accepted) + self.batch_size


@dataclass(frozen=True)
class StepCost:
    """Time of one step (draft and verify) in milliseconds: `fixed + per_token * width`.

    The defaults are the reference's fit for Flash-Next at batch size 1 on an RTX PRO 6000: 9.74 + 0.70 S.
    """

    fixed: float = 9.74
    per_token: float = 0.70

    def __post_init__(self) -> None:
        if not (self.fixed > 0 and self.per_token >= 0):
            raise ValueError(
                f"A step of {self.fixed} + {self.per_token} * width ms was asked for; the fixed part must be above 0 "
                "and the part of each draft token not below 0."
            )

    def __call__(self, width: int) -> float:
        """Milliseconds of a step that verifies `width` draft tokens."""
        return self.fixed + self.per_token * width
